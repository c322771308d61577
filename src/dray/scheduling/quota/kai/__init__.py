"""Queues of KAI: a tree of queues with quota, limit and weight for GPUs, cpu and memory.

`queue` reads a Queue object, `share_tree` divides what there is among the queues, `policy` answers for the scheduler,
`order` says whose pod is tried next, and `removals` which pods may be evicted for it.

May import: `model`, `cluster` and the modules of `quota` itself.
"""
