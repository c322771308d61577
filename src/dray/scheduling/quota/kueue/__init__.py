"""Queues of Kueue: LocalQueues that lead to ClusterQueues with flavors, in cohorts that lend and reclaim.

`kinds` reads the objects, `objects` keeps them, `policy` answers for the scheduler. `flavors`, `order`, `shares` and
`strict` decide who gets quota; `preemption`, `fair_preemption` and `removals` who loses it. `status` is written back.

May import: `model`, `cluster` and the modules of `quota` itself.
"""
