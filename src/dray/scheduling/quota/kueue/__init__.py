"""Queues of Kueue: LocalQueues that refer to ClusterQueues with flavors, in cohorts that lend and reclaim quota.

`kinds` reads the objects, `objects` keeps them, `policy` answers for the scheduler. `flavors`, `order`, `shares` and
`strict` decide which pods get quota; `preemption`, `fair_preemption` and `evictions` decide which pods are evicted.
`status` computes the status of the queues.

May import: `model`, `cluster` and the modules of `quota` itself.
"""
