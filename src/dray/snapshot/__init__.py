"""Snapshots: what the scheduler reads from a cluster, listed once, and kept in a file.

`listing` lists the kinds that decide on pods, and fills a scheduler's core with them. `fields` says what of each object
is kept. `taking` makes a snapshot of a live cluster, `files` writes and reads its file, and `transport` answers
requests from it, so that whatever works against an API server works against a snapshot in the same words.
"""
