"""Reserved places: resources that are reserved for large groups until the pods that use them end by themselves.

`reserved_places` keeps the reservations, `place_search` finds the places that will be free first, and `backfill` lets
small pods start that end in time.

May import: `eviction` and what it may import.
"""
