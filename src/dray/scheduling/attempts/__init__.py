"""Attempts to place pods and groups, and the handling of events about pods and groups.

`attempts` tries the pods that the queue returns. An `attempt` decides in steps, those of a pod (`pod_attempt`) or of a
group (`group_attempt`), and returns an `Outcome`, which `attempts` carries out. `pod_events` and `group_events` handle
watch events; the former follows pods until they are bound. `queueing_hints` moves pods back to the active queue when a
change may help them. `context` has the parts of the scheduler that all of these share.

May import: everything but `scheduler` and `explain`.
"""
