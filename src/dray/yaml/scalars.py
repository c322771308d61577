"""Plain YAML scalars: which value a text stands for.

kubectl and the API server read YAML with go-yaml v2, and so does dray: `yes`, `on` and `y` are booleans, `010` and
`0o10` are eight, `0x10` sixteen, `1_000` a thousand, and a date stays text, as do `12:30:45` (there is no base 60) and
a number that no float can hold. A float with an integral value is an integer, because that is how it comes out of
the detour through JSON (`1e3` and `count: 2.0` are accepted by an API server). `resolve` serves the reader; `is_text`
serves the writer, which quotes whatever would be read as something else.
"""

from __future__ import annotations

import math
import re
from typing import Final

Scalar = str | int | float | bool | None

WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))\Z"
)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_BASES: Final = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_NUMERIC_START: Final = frozenset("0123456789+-.")
_LONGEST_INTEGER: Final = 64


def resolve(text: str) -> Scalar:
    """The value of a plain scalar. Infinity and NaN come back as floats; JSON has no place for them."""
    if text in WORDS:
        return WORDS[text]
    if text[0] not in _NUMERIC_START:
        return text
    plain = text if text[0] == "." else text.replace("_", "")
    integer = _integer(plain)
    if integer is not None:
        return integer
    if _FLOAT.match(plain) and math.isfinite(number := float(plain)):
        return _whole(number)
    return text


def is_text(text: str) -> bool:
    """Whether a plain scalar with these characters would be read back as this string."""
    return text != "<<" and resolve(text) == text


def key_text(value: Scalar) -> str | None:
    """A mapping key as JSON wants it; None where kubectl refuses the key."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}"
    return None


def _integer(plain: str) -> int | None:
    found = _INTEGER.match(plain)
    if found is None:
        return None
    kind = found.lastgroup
    assert kind is not None
    digits = found[kind]
    if len(digits) > _LONGEST_INTEGER:
        return None
    value = int(digits, _BASES[kind])
    if found["sign"] == "-":
        value = -value
    limit = 2**63 if found["sign"] else 2**64
    return value if -(2**63) <= value < limit else None


def _whole(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) < 2**63 else value
