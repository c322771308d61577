"""Quantities: exact decimal amounts with Kubernetes' grammar, rounding and canonical form.

The value is an integer number of nanos, so comparison and arithmetic are integer operations. Kubernetes keeps
small amounts as (int64, power of ten) and all others as arbitrary-precision decimals, and some of its answers
depend on which: `as_int64` refuses a decimal and a negative power. `unscaled`, `scale` and `wide` carry that
distinction and nothing else depends on it.

Amounts below one nano are rounded away from zero when parsed; binary amounts (`Ki` … `Ei`) are capped at
2^63-1. A power of ten beyond `MAX_EXPONENT` is read as `MAX_EXPONENT`, so that no text grows without bound.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache, total_ordering
from typing import Final

INT32_MAX: Final = 2**31 - 1
INT32_MIN: Final = -(2**31)
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
MAX_EXPONENT: Final = 1000

_NANO: Final = 10**9
_NANO_SCALE: Final = -9
_MAX_DIGITS: Final = 18
# A longer text cannot be an amount anybody means; Kubernetes would read it in quadratic time.
_MAX_TEXT: Final = 4096

_GRAMMAR = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([A-Za-z]*)([+-]?\d*)", re.ASCII)
_POWERS: Final = tuple(10**exponent for exponent in range(28))


class QuantityError(ValueError):
    """The text is not a valid quantity."""


class Format(Enum):
    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"


_DECIMAL_SUFFIXES: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES: Final = ("", *_BINARY_SUFFIXES)


@total_ordering
class Quantity:
    """An immutable amount; equal to others of the same value in any notation."""

    __slots__ = ("_text", "format", "nanos", "scale", "unscaled", "wide")

    nanos: int
    format: Format
    unscaled: int
    scale: int
    wide: bool

    def __init__(
        self, unscaled: int, scale: int, format_: Format, *, wide: bool = False, text: str | None = None
    ) -> None:
        self.unscaled = unscaled
        self.scale = scale
        self.format = format_
        self.wide = wide
        power = scale - _NANO_SCALE
        self.nanos = unscaled * (_POWERS[power] if power < 28 else 10**power)
        self._text = text

    @staticmethod
    def parse(text: str) -> Quantity:
        """Reads `text` as an API server does; raises QuantityError."""
        return _parse(text)

    @classmethod
    def of(cls, value: int) -> Quantity:
        """Returns the quantity of a whole number."""
        return cls(value, 0, Format.DECIMAL_SI, wide=not INT64_MIN <= value <= INT64_MAX)

    def __str__(self) -> str:
        if self._text is None:
            self._text = self.canonical()
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __add__(self, other: Quantity) -> Quantity:
        return self._sum(other, 1)

    def __sub__(self, other: Quantity) -> Quantity:
        return self._sum(other, -1)

    def __neg__(self) -> Quantity:
        return Quantity(-self.unscaled, self.scale, self.format, wide=self.wide)

    def _sum(self, other: Quantity, sign: int) -> Quantity:
        format_ = self.format if self.nanos else other.format
        if not (self.wide or other.wide):
            if not other.unscaled:
                return Quantity(self.unscaled, self.scale, format_)
            if not self.unscaled:
                return Quantity(sign * other.unscaled, other.scale, format_)
            scale = min(self.scale, other.scale)
            left = self.unscaled * 10 ** (self.scale - scale)
            right = sign * other.unscaled * 10 ** (other.scale - scale)
            if all(INT64_MIN <= number <= INT64_MAX for number in (left, right, left + right)):
                return Quantity(left + right, scale, format_)
        return Quantity(self.nanos + sign * other.nanos, _NANO_SCALE, format_, wide=True)

    def sign(self) -> int:
        return (self.nanos > 0) - (self.nanos < 0)

    def as_int64(self) -> int | None:
        """Returns the value as an integer if Kubernetes can convert it exactly, unlike `1.0` and `1Pi`; else None."""
        if self.wide or self.scale < 0:
            return None
        whole = self.unscaled * 10**self.scale
        return whole if INT64_MIN <= whole <= INT64_MAX else None

    def as_float(self) -> float:
        try:
            return float(self.unscaled) * 10.0**self.scale if self.scale else float(self.unscaled)
        except OverflowError:
            return float("inf") if self.unscaled > 0 else float("-inf")

    def scaled(self, scale: int) -> int:
        """Returns the amount in units of 10^scale (0: ones, -3: milli), rounded away from zero."""
        unit: int = 10 ** (scale - _NANO_SCALE)
        return -(-self.nanos // unit) if self.nanos >= 0 else self.nanos // unit

    def value(self) -> int:
        """Returns the amount in ones, rounded away from zero."""
        return self.scaled(0)

    def is_integral(self) -> bool:
        return self.nanos % _NANO == 0

    def rounded(self, scale: int) -> Quantity:
        """Rounds away from zero to a multiple of 10^scale."""
        if not self.wide and self.scale >= scale:
            return self
        return Quantity(self.scaled(scale), scale, self.format, wide=self.wide)

    def canonical(self) -> str:
        if not self.nanos:
            return "0"
        if self.format is Format.BINARY_SI and abs(self.nanos) >= 1024 * _NANO and self.is_integral():
            return _binary_text(self.nanos // _NANO)
        return _decimal_text(self.nanos, self.format)


def _binary_text(whole: int) -> str:
    power = 0
    while whole % 1024 == 0 and power < len(_BINARY_NAMES) - 1:
        whole //= 1024
        power += 1
    return f"{whole}{_BINARY_NAMES[power]}"


def _decimal_text(nanos: int, format_: Format) -> str:
    digits = str(abs(nanos))
    mantissa = digits.rstrip("0")
    exponent = len(digits) - len(mantissa) + _NANO_SCALE
    shift = exponent % 3
    exponent -= shift
    sign = "-" if nanos < 0 else ""
    number = f"{sign}{mantissa}{'0' * shift}"
    if format_ is not Format.DECIMAL_EXPONENT and exponent in _DECIMAL_NAMES:
        return number + _DECIMAL_NAMES[exponent]
    return f"{number}e{exponent}" if exponent else number


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    match = _GRAMMAR.fullmatch(text) if 0 < len(text) <= _MAX_TEXT else None
    if match is None:
        raise QuantityError(f"{text[:64]!r} is not a quantity: write a number with a suffix, such as 500m, 2 or 16Gi")
    sign, number, fraction, suffix, exponent = match.groups("")
    number = number.lstrip("0") or "0"
    if not exponent:
        if suffix in _DECIMAL_SUFFIXES:
            return _parse_decimal(text, sign, number, fraction, _DECIMAL_SUFFIXES[suffix], Format.DECIMAL_SI)
        if suffix in _BINARY_SUFFIXES:
            return _parse_binary(text, sign, number, fraction, _BINARY_SUFFIXES[suffix])
    elif suffix in ("e", "E") and exponent[-1] not in "+-":
        return _parse_decimal(text, sign, number, fraction, _bounded(exponent), Format.DECIMAL_EXPONENT)
    raise QuantityError(
        f"{text[:64]!r} has an unknown suffix {(suffix + exponent)[:16]!r}: use n u m k M G T P E or Ki Mi Gi Ti Pi Ei"
    )


def _bounded(exponent: str) -> int:
    if len(exponent) > 19:
        raise QuantityError(f"exponent {exponent[:24]!r} is out of range")
    return max(-MAX_EXPONENT, min(MAX_EXPONENT, int(exponent)))


def _parse_decimal(text: str, sign: str, number: str, fraction: str, exponent: int, format_: Format) -> Quantity:
    digits = number + fraction
    scale = exponent - len(fraction)
    unscaled = -int(digits) if sign == "-" else int(digits)
    if len(digits) <= _MAX_DIGITS and scale >= _NANO_SCALE:
        keep = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        return Quantity(unscaled, scale, format_, text=text if keep or text == "0" else None)
    return Quantity(_to_nanos(unscaled, scale), _NANO_SCALE, format_, wide=True)


def _parse_binary(text: str, sign: str, number: str, fraction: str, exponent: int) -> Quantity:
    whole = int(number + fraction) << exponent
    if not fraction and 15 - len(number) - exponent * 3 // 10 - 1 >= 0:
        keep = int(number) & 7 != 0
        signed = -whole if sign == "-" else whole
        return Quantity(signed, 0, Format.BINARY_SI, text=text if keep else None)
    nanos = min(_to_nanos(whole, -len(fraction)), INT64_MAX * _NANO)
    format_ = Format.DECIMAL_SI if 0 < nanos < _NANO else Format.BINARY_SI
    return Quantity(-nanos if sign == "-" else nanos, _NANO_SCALE, format_, wide=True)


def _to_nanos(unscaled: int, scale: int) -> int:
    """unscaled · 10^scale in nanos, rounded away from zero."""
    if scale >= _NANO_SCALE:
        return int(unscaled * 10 ** (scale - _NANO_SCALE))
    unit: int = 10 ** (_NANO_SCALE - scale)
    return -(-unscaled // unit) if unscaled >= 0 else unscaled // unit
