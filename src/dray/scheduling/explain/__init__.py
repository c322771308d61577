"""Answers for people: why a pod or a group waits, and which pods to move so that it fits.

`explainer` asks every node in full, where a decision stops at the first good answer; `group_explainer` names the causes
for a group. `consolidation` is what `dray defrag` shows.

May import: everything, `scheduler` included. Nothing imports it but callers outside the scheduler.
"""
