"""Snapshots: files with everything that the scheduler reads from a cluster.

`listing` lists the kinds that the scheduler reads, and fills a scheduler with them. `fields` says which fields of an
object are kept. `taking` makes a snapshot of a live cluster, `files` writes and reads its file, and `transport` answers
requests from it, so that code for an API server works with a snapshot too.
"""
