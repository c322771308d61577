"""Room for the compiler to work in.

Its passes recurse with the nesting of the expression, several calls a level, and that nesting is bounded by the
parser. Python's default of 1,000 calls is less than Kubernetes' 250 levels need; these are calls of Python functions
by Python functions, which do not use the C stack. The many small nodes made here all live until the end, so the
garbage collector would only walk them: it rests meanwhile.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

_CALLS: Final = 12_000


class compiling:
    """`with compiling():` around whatever walks a tree."""

    __slots__ = ("_collecting", "_limit")

    def __enter__(self) -> None:
        self._limit = sys.getrecursionlimit()
        self._collecting = gc.isenabled()
        if self._limit < _CALLS:
            sys.setrecursionlimit(_CALLS)
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._collecting:
            gc.enable()
        if self._limit < _CALLS:
            sys.setrecursionlimit(self._limit)
