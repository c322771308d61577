"""Quota of queues: what a pod is charged, what its queue has left, and whose turn it is.

`queue_policy` is the interface between the scheduler and a queue system, with its contract. `systems` lists the
systems, each of which is a package. `queues` asks the system that a pod concerns, and reserves quota. `queue_charges`,
`claim_costs`, `turns` and the waiters are what the systems share.

May import: `model` and `cluster`. Groups are known by their keys only.
"""
