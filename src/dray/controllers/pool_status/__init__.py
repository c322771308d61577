"""Answers ResourcePoolStatusRequests: how many devices the pools of a driver have, and how many are left.

`counting` adds up a pool, `views` what is left of partitions and shared capacity, `expiry` says when a request is old,
`controller` answers and cleans up.
"""

from dray.controllers.pool_status.controller import PoolStatus

__all__ = ["PoolStatus"]
