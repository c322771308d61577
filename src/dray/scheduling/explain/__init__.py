"""Answers for people: why a pod or a group waits, and which pods to move so that it fits.

`explainer` asks all filters on every node, while a decision stops at the first node that fits; for a group it names the
causes. `consolidation` finds the moves that `dray defrag` shows.

May import: everything, `scheduler` included. Only callers outside of the scheduler import this package.
"""
