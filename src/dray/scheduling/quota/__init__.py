"""Quota of queues: what a pod is charged, what its queue has left, and the order in which pods are tried.

`queue_policy` is the interface between the scheduler and a queue system, with its contract. `systems` lists the
systems, each of which is a package. `queues` asks the system that a pod concerns, and reserves quota. `queue_charges`,
`claim_costs` and `turns` are shared by all systems. `quota_log` tells the wait index which quota was freed or taken.

May import: `model` and `cluster`. Groups are passed in (`queue_context`).
"""
