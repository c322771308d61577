"""Which running pods have to go so that others find their places or get their quota.

`preemption` searches by priority for one pod, `group_preemption` for a group. `reclaim` and `group_quota` ask the queue
system which pods use quota that belongs to others. `relocation` tries out whether running pods find places elsewhere.

May import: `placement` and what it may import.
"""
