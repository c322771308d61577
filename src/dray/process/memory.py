"""How often Python looks for garbage in cycles: every few hundred new objects, unless it is told otherwise.

A request or a decision makes as many objects, and what they make has few cycles or none.
"""

from __future__ import annotations

import gc
from typing import Final

_THRESHOLDS: Final = (20_000, 20, 50)


def collect_rarely() -> None:
    """From now on, and not at what is there already: that stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
