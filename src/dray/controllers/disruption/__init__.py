"""PodDisruptionBudgets: how many of a set of pods may be evicted now; the eviction subresource spends it.

`budget` computes a status, `scale` finds out how many pods there should be, `controller` is the loop.
"""
