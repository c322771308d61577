"""Evictions: the running pods to evict so that other pods fit on nodes or get their quota.

`preemption` searches by priority for one pod, `group_preemption` for a group. `reclaim` asks the queue system
which pods use quota that belongs to others. `relocation` tries out whether running pods fit on other nodes.

May import: `placement` and what it may import.
"""
