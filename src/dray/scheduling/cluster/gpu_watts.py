"""Watts of GPUs by model, idle and in use.

Of models that are not listed, the longest listed name that their name begins with counts (V100M32: V100), or nothing.
G2 and G3 are undisclosed models of a public trace, with the watts of an A10 and an A100.
"""

from __future__ import annotations

from functools import cache
from typing import Final

WATTS: Final = {
    "A10": (30, 150),
    "A100": (50, 400),
    "G2": (30, 150),
    "G3": (50, 400),
    "P100": (25, 250),
    "T4": (10, 70),
    "V100": (30, 300),
}


@cache
def watts_of(model: str) -> tuple[int, int]:
    """The watts of a GPU that is idle, and of one that is in use."""
    fitting = [name for name in WATTS if model.startswith(name)]
    return WATTS[max(fitting, key=len)] if fitting else (0, 0)
