"""Faults put into the sources one at a time, to see whether the tests find them: `python -m tests.mutants`."""
