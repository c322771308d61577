"""Functions on strings: cel-go's string extension, version 2. Positions and sizes count Unicode characters."""

from __future__ import annotations

from typing import Final

from dray.cel.declarations import Library
from dray.cel.errors import EvaluationError, no_such_overload
from dray.cel.library.formatting import format_string
from dray.cel.size_limit import spend, spend_characters
from dray.cel.values import Value

LIBRARY: Final = Library("strings")
REVERSE: Final = Library("string reversal")

_SPACE: Final = " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_SPACE_ALL: Final = _SPACE + "\u2028\u2029\u202f\u205f\u3000"
_QUOTED: Final = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def _check(function: str, value: Value, *rest: tuple[Value, type]) -> None:
    if type(value) is not str or any(type(argument) is not kind for argument, kind in rest):
        raise no_such_overload(function)


def _char_at(value: Value, index: Value) -> str:
    _check("charAt", value, (index, int))
    if index < 0 or index > len(value):
        raise EvaluationError(f"index out of range: {index}")
    return str(value[index : index + 1])


def _index_of(value: Value, part: Value, start: Value = 0) -> int:
    _check("indexOf", value, (part, str), (start, int))
    if start < 0 or start > len(value):
        if not part:
            return max(0, int(start))
        raise EvaluationError(f"index out of range: {start}")
    return int(value.find(part, start)) if part else int(start)


def _last_index_of(value: Value, part: Value, end: Value = None) -> int:
    _check("lastIndexOf", value, (part, str), *([] if end is None else [(end, int)]))
    if end is None:
        return int(value.rfind(part))
    if end < 0 or end > len(value):
        if not part:
            return len(value)
        raise EvaluationError(f"index out of range: {end}")
    return int(value.rfind(part, 0, end + len(part))) if part else int(end)


def _join(values: Value, separator: Value = "") -> str:
    if type(values) is not list or type(separator) is not str:
        raise no_such_overload("join")
    if not all(type(value) is str for value in values):
        raise no_such_overload("join")
    spend_characters(sum(len(value) for value in values) + len(separator) * len(values))
    return separator.join(values)


def _upper(value: Value) -> str:
    _check("upperAscii", value)
    return value.encode(errors="surrogatepass").upper().decode(errors="surrogatepass")  # type: ignore[no-any-return]


def _lower(value: Value) -> str:
    _check("lowerAscii", value)
    return value.encode(errors="surrogatepass").lower().decode(errors="surrogatepass")  # type: ignore[no-any-return]


def _replace(value: Value, old: Value, new: Value, count: Value = -1) -> str:
    _check("replace", value, (old, str), (new, str), (count, int))
    times = value.count(old) if count < 0 else min(count, value.count(old))
    spend_characters(len(value) + times * max(0, len(new) - len(old)))
    return str(value.replace(old, new, count if count >= 0 else -1))


def _split(value: Value, separator: Value, limit: Value = -1) -> list[Value]:
    _check("split", value, (separator, str), (limit, int))
    if limit == 0:
        return []
    if limit == 1:
        return [value]
    if separator:
        parts: list[Value] = value.split(separator, -1 if limit < 0 else limit - 1)
    elif limit < 0 or limit >= len(value):
        parts = list(value)
    else:
        parts = [*value[: limit - 1], value[limit - 1 :]]
    spend(len(parts) >> 2)
    return parts


def _substring(value: Value, start: Value, end: Value = None) -> str:
    _check("substring", value, (start, int), *([] if end is None else [(end, int)]))
    stop = len(value) if end is None else end
    if start < 0 or start > len(value):
        raise EvaluationError(f"index out of range: {start}")
    if stop < 0 or stop > len(value):
        raise EvaluationError(f"index out of range: {stop}")
    if start > stop:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {stop}")
    return str(value[start:stop])


def _trim(value: Value) -> str:
    _check("trim", value)
    return str(value.strip(_SPACE_ALL))


def _quote(value: Value) -> str:
    _check("strings.quote", value)
    spend_characters(2 * len(value))
    return f'"{value.translate(_QUOTED)}"'


def _format(value: Value, arguments: Value) -> str:
    if type(value) is not str or type(arguments) is not list:
        raise no_such_overload("format")
    return format_string(value, arguments)


def _reverse(value: Value) -> str:
    _check("reverse", value)
    return str(value[::-1])


_f = LIBRARY.function
_f("charAt", _char_at, "string_char_at_int: string.(int) -> string")
_f(
    "indexOf",
    _index_of,
    "string_index_of_string: string.(string) -> int",
    "string_index_of_string_int: string.(string, int) -> int",
)
_f(
    "lastIndexOf",
    _last_index_of,
    "string_last_index_of_string: string.(string) -> int",
    "string_last_index_of_string_int: string.(string, int) -> int",
)
_f("join", _join, "list_join: list<string>.() -> string", "list_join_string: list<string>.(string) -> string")
_f("upperAscii", _upper, "string_upper_ascii: string.() -> string")
_f("lowerAscii", _lower, "string_lower_ascii: string.() -> string")
_f(
    "replace",
    _replace,
    "string_replace_string_string: string.(string, string) -> string",
    "string_replace_string_string_int: string.(string, string, int) -> string",
)
_f(
    "split",
    _split,
    "string_split_string: string.(string) -> list<string>",
    "string_split_string_int: string.(string, int) -> list<string>",
)
_f(
    "substring",
    _substring,
    "string_substring_int: string.(int) -> string",
    "string_substring_int_int: string.(int, int) -> string",
)
_f("trim", _trim, "string_trim: string.() -> string")
_f("format", _format, "string_format: string.(list<dyn>) -> string")
_f("strings.quote", _quote, "strings_quote: (string) -> string")
REVERSE.function("reverse", _reverse, "string_reverse: string.() -> string")
