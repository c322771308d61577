"""Attempts: a pod or a group goes through the stages, and what follows from events and refusals.

`attempts` tries what the queue gives it. An `attempt` decides in steps, those of a pod (`pod_attempt`) or of a group
(`group_attempt`), and returns an `outcome`. `effects` carries the outcome out, and `bindings` follows pods until they
are bound. `pod_events` and `group_events` take in what the watches say. `queueing_hints` moves pods back to the active
queue when a change may help them. `context` has the parts of the scheduler that all of these share.

May import: everything but `scheduler` and `explain`.
"""
