"""How everything here is measured: one case, one harness, one format of results, one table and one drawing.

case.py: what is measured. calls.py: its inputs, and the calls of ours, torch's and numpy's. timing.py: the harness.
measure.py: one case, timed. results.py: what came out, and its CSV. table.py: what is printed. charts.py and svg.py:
what is drawn.
"""
