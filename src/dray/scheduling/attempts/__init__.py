"""Attempts: a pod or a group goes through the stages, and what follows from events and refusals.

`pod_attempts` and `group_attempts` try what the queue gives them. `pod_events` and `group_events` take in what the
watches say. `queueing_hints` moves pods back to the active queue when a change may help them.

May import: everything but `scheduler` and `explain`.
"""
