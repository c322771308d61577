"""Search for devices and claims: rows, matches of a selector, how many can be had at once, timelines of claims.

Nothing here asks a server. Objects come in as a viewer may see them, JSON goes out. `matching` and `room` may take
long; they are bounded by units of work, and views run them in a thread.
"""
