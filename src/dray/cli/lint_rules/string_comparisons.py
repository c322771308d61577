"""String comparisons of quantities and versions in CEL selectors.

In `device.attributes["gpu.example.com"].memory >= "16Gi"` the right side is a string, so "9Gi" is more than
"16Gi", and an attribute that is not a string makes the selector fail. This looks at the text of the
expression: an access to an attribute or a capacity, an operator, and a literal that reads as a quantity, a
version or a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_LITERAL = r"""(?:"[^"\\]*"|'[^'\\]*')"""
_INDEX = rf"\s*\[\s*{_LITERAL}\s*\]"
_ACCESS = rf"device\.(?:attributes|capacity){_INDEX}(?:\s*\.\s*\??\w+|{_INDEX})"
_OPERATOR = r"[<>]=?|[=!]="
_FORWARD = re.compile(rf"(?P<access>{_ACCESS})\s*(?P<operator>{_OPERATOR})\s*(?P<literal>{_LITERAL})")
_BACKWARD = re.compile(rf"(?P<literal>{_LITERAL})\s*(?P<operator>{_OPERATOR})\s*(?P<access>{_ACCESS})")

_QUANTITY = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[KMGTPE]i|[mkMGTPE])\Z")
_NUMBER = re.compile(r"[0-9]+\Z")
_VERSION = re.compile(r"v?(?P<numbers>[0-9]+(?:\.[0-9]+){0,2})(?P<rest>[-+][0-9A-Za-z.+-]+)?\Z")
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class StringComparison:
    """What was compared, and the expression that was probably meant."""

    text: str
    what: str
    instead: str


def string_comparisons(expression: str) -> Iterator[StringComparison]:
    for pattern in (_FORWARD, _BACKWARD):
        for found in pattern.finditer(expression):
            comparison = _judge(found, mirrored=pattern is _BACKWARD)
            if comparison is not None:
                yield comparison


def _judge(found: re.Match[str], *, mirrored: bool) -> StringComparison | None:
    literal = found["literal"][1:-1]
    operator = _MIRRORED.get(found["operator"], found["operator"]) if mirrored else found["operator"]
    access = " ".join(found["access"].split())
    shown = " ".join(found[0].split())
    if _QUANTITY.match(literal):
        capacity = access.replace("device.attributes", "device.capacity", 1)
        return StringComparison(shown, "a quantity", f'{capacity}.compareTo(quantity("{literal}")) {operator} 0')
    if operator not in _MIRRORED:
        return None
    if _NUMBER.match(literal) and "version" not in access.lower():
        return StringComparison(shown, "a number", f"{access} {operator} {literal}")
    if (version := _VERSION.match(literal)) is not None:
        full = _full(version)
        return StringComparison(shown, "a version", f'{access}.compareTo(semver("{full}")) {operator} 0')
    return None


def _full(version: re.Match[str]) -> str:
    """A semantic version has three numbers without leading zeros."""
    numbers = [number.lstrip("0") or "0" for number in version["numbers"].split(".")]
    return ".".join(numbers + ["0"] * (3 - len(numbers))) + (version["rest"] or "")
