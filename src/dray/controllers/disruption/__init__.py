"""PodDisruptionBudgets: how many of a set of pods may be evicted now; the eviction subresource spends it.

`budget` computes a status, `controller` finds out how many pods there should be and is the loop.
"""
