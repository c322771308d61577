"""Pruning of the search: relaxations, symmetries and memories by which places without a solution are cut.

`Pruning` decides what is asked when. `demands` is what is left to serve, relaxed to counts and bitsets; `bounds`,
`budgets`, `shares` and `surrogates` refuse it where it cannot be served; `symmetry` and `blocks` find what is
interchangeable; `feasibility` asks whether it can be served in any order at all.
"""

from dray.allocation.pruning.pruning import Pruning

__all__ = ["Pruning"]
