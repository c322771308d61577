"""Answers ResourcePoolStatusRequests: how many devices the pools of a driver have, and how many are left.

`counting` adds up a pool, `views` what is left of partitions and shared capacity, `controller` answers and cleans up.
"""
