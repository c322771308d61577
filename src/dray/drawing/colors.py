"""Colours that people with any common colour blindness can tell apart, as on the web page (static/parts/colours.js).

They never carry a meaning alone: legends, labels or tooltips say the same. Vermilion is left out of the categories: it
is for what is wrong.
"""

from __future__ import annotations

from typing import Final

CATEGORIES: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#9030f0", "#7a3518")
"""Colors of parts and lines, in this order."""
STATES: Final = {
    "free": "#9db4c0",
    "allocated": "#0072b2",
    "shared": "#56b4e9",
    "tainted": "#d55e00",
    "blocked": "#5f5750",
}
"""Colors of devices by their state."""
_WHITE: Final = 255
_PALE: Final = 0.15


def pale(color: str) -> str:
    """Returns the colour as a ground for texts."""
    parts = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(_WHITE - (_WHITE - part) * _PALE):02x}" for part in parts)
