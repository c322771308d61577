"""Reserved places: resources that are reserved for large groups until the pods that use them end by themselves.

`reserved_places` keeps the reservations, `place_search` finds the places that will be free first, `backfill` lets small
pods start that end in time, and `group_reservations` is used by the attempts of groups.

May import: `eviction` and what it may import.
"""
