"""`"%s".format([...])`: clauses %s %d %f %e %b %o %x %X with precision, and %% for itself."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Final

from dray.cel.errors import EvaluationError
from dray.cel.library.moments import format_duration, format_timestamp
from dray.cel.size_limit import spend, spend_characters
from dray.cel.values import Duration, Timestamp, TypeValue, Uint, Value, decode_key, type_name

_CLAUSE = re.compile(r"%(?:(%)|(?:\.(\d*))?([a-zA-Z])|())")
_DEFAULT_PRECISION: Final = 6
_MAX_PRECISION: Final = 1000


def format_string(template: str, arguments: list[Value]) -> str:
    """The template with its clauses replaced in order; raises EvaluationError."""
    pieces: list[str] = []
    position = used = 0
    for match in _CLAUSE.finditer(template):
        if match.start() < position:
            continue
        pieces.append(template[position : match.start()])
        position = match.end()
        if match.group(1):
            pieces.append("%")
            continue
        verb = match.group(3)
        if verb is None or verb not in _VERBS:
            raise EvaluationError(f"could not parse formatting clause: unrecognized clause {match.group()!r}")
        if used >= len(arguments):
            raise EvaluationError(f"index {used} out of range")
        pieces.append(_VERBS[verb](arguments[used], _precision(match.group(2))))
        used += 1
        spend_characters(len(pieces[-1]) * 2)
    pieces.append(template[position:])
    return "".join(pieces)


def _precision(digits: str | None) -> int | None:
    if digits is None:
        return None
    if not digits or len(digits) > 4 or int(digits) > _MAX_PRECISION:
        raise EvaluationError("could not parse formatting clause: invalid precision")
    return int(digits)


def _wrong(clause: str, value: Value) -> EvaluationError:
    return EvaluationError(f"error during formatting: {clause} clause cannot be used on {type_name(value)}")


def display(value: Value) -> str:
    """%s: strings as they are, everything else as CEL would show it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _plain_double(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if value is None:
        return "null"
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, Duration):
        return format_duration(value)
    if isinstance(value, Timestamp):
        return format_timestamp(value)
    if isinstance(value, list):
        spend(len(value) + 12)
        return "[" + ", ".join([display(element) for element in value]) + "]"
    if isinstance(value, dict):
        spend(len(value) + 12)
        shown = sorted((display(decode_key(key)), display(entry)) for key, entry in value.items())
        return "{" + ", ".join(f"{key}: {entry}" for key, entry in shown) + "}"
    raise EvaluationError(
        "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, "
        f"lists, types, durations, and timestamps, was given {type_name(value)}"
    )


def _plain_double(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    text = format(Decimal(repr(value)), "f")
    return text.removesuffix(".0") if text.endswith(".0") else text


def _decimal(value: Value, precision: int | None) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong("decimal", value)
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return _plain_double(value)
        raise _wrong("decimal", value)
    return str(int(value))


def _number(value: Value, clause: str) -> float | None:
    """The number to format, or None where only its name can be shown."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(clause, value)
    number = float(value)
    return None if math.isnan(number) or math.isinf(number) else number


def _fixed(value: Value, precision: int | None) -> str:
    number = _number(value, "fixed-point")
    if number is None:
        return _plain_double(value)
    places = _DEFAULT_PRECISION if precision is None else precision
    quantum = Decimal(1).scaleb(-places)
    return _rounded(Decimal(number), quantum, places)


def _rounded(number: Decimal, quantum: Decimal, places: int) -> str:
    with localcontext() as context:
        context.prec = 2500
        return format(number.quantize(quantum, rounding=ROUND_HALF_EVEN), f".{places}f")


def _scientific(value: Value, precision: int | None) -> str:
    number = _number(value, "scientific")
    if number is None:
        return _plain_double(value)
    return format(number, f".{_DEFAULT_PRECISION if precision is None else precision}e")


def _signed(value: int, digits: str) -> str:
    return f"-{digits}" if value < 0 else digits


def _binary(value: Value, precision: int | None) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if type(value) not in (int, Uint):
        raise _wrong("binary", value)
    return _signed(value, format(abs(int(value)), "b"))


def _octal(value: Value, precision: int | None) -> str:
    if type(value) not in (int, Uint):
        raise _wrong("octal", value)
    return _signed(value, format(abs(int(value)), "o"))


def _hexadecimal(value: Value, precision: int | None) -> str:
    if isinstance(value, str):
        return value.encode().hex()
    if isinstance(value, bytes):
        return value.hex()
    if type(value) not in (int, Uint):
        raise _wrong("hex", value)
    return _signed(value, format(abs(int(value)), "x"))


_VERBS: Final[dict[str, Callable[[Value, int | None], str]]] = {
    "s": lambda value, _: display(value),
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "o": _octal,
    "x": _hexadecimal,
    "X": lambda value, precision: _hexadecimal(value, precision).upper(),
}
