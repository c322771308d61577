"""Places that are reserved for large groups until pods that run there end by themselves.

`reserved_places` keeps the reservations, `place_search` finds where room will be first, `backfill` lets small pods
start that end in time, and `group_reservations` serves the attempts of groups.

May import: `eviction` and what it may import.
"""
