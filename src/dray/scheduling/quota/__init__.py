"""Quota of queues: what a pod is charged, what its queue has left, and whose turn it is.

`queue_policy` is the interface between the scheduler and a queue system. `queue_charges`, `quota_tree`, `turns` and the
waiters are what the systems share. `kueue` and `kai` are the systems; `queues` lists them and asks the one that a pod
concerns.

May import: `model` and `cluster`. Groups are known by their keys only.
"""
