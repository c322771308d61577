"""Which driver a class or request asks for, as far as its selectors say so plainly.

A selector such as `device.driver == "gpu.example.com" && …` takes devices of one driver only. If no ResourceSlice of
that driver exists, nothing else matters; and a device of another driver is never near to what is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from dray.cel.lexer import conditions

_COMPARISON: Final = re.compile(r"""device\.driver\s*==\s*(["'])(?P<driver>[^"'\\]+)\1""")


def wanted_driver(expressions: Iterable[str]) -> str:
    """Returns the driver that the selectors demand; empty if any driver could do."""
    for expression in expressions:
        for condition in conditions(expression):
            if (found := _COMPARISON.fullmatch(condition)) is not None:
                return found["driver"]
    return ""
