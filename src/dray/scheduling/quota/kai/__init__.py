"""Queues of KAI: a tree of queues with quota, limit and weight for GPUs, cpu and memory.

`queue` reads a Queue object, `share_tree` divides the capacity of the cluster among the queues, `policy` answers for
the scheduler, `waiting` says which queue has its next pod tried, and `removals` which pods may be evicted for that pod.

May import: `model`, `cluster` and the modules of `quota` itself.
"""
