"""Places that are reserved for large groups until pods that run there end by themselves.

`drains` keeps the reservations, `drain_search` finds where room will be first, `backfill` lets small pods start that
end in time, and `group_drains` is what a group meets during its attempt.

May import: `eviction` and what it may import.
"""
