"""How everything in this project is measured: one kind of case, one harness, one format of results, one table.

case.py: what is measured. calls.py: its inputs, and the calls of our, torch's and numpy's functions. timing.py: the
harness. measure.py: times one case. results.py: the results and their CSV files. table.py: what is printed. charts.py
and svg.py: what is drawn.
"""
