"""Answers for people: why a pod or a group waits, and which pods to move so that it fits.

`explainer` asks all filters on every node, while a decision stops at the first node that fits; `group_explainer` names
the causes for a group. `consolidation` finds the moves that `dray defrag` shows.

May import: everything, `scheduler` included. Only callers outside of the scheduler import this package.
"""
