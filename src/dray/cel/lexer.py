"""Text to tokens. One regular expression knows every token; string bodies are decoded by `literals`."""

from __future__ import annotations

import re
from typing import Any

from dray.cel.errors import CompileError
from dray.cel.literals import decode_string
from dray.cel.values import Uint

RESERVED = frozenset(
    "as break const continue else for function if import let loop package namespace return var void while".split()
)
KEYWORDS = frozenset(("in", "true", "false", "null"))

_TOKEN = re.compile(
    r"""
    [ \t\r\n\f]*+ (?: //[^\n]*+ [ \t\r\n\f]*+ )*+
    (?: ( [_a-zA-Z][_a-zA-Z0-9]*+ (?!["']) )
    | (&& | \|\| | == | != | <= | >= | [-+*/%<>!?:,()\[\]{}] | \.(?![0-9]))
    | ( [bB]?[rR](?:\"\"\"[\s\S]*?\"\"\" | '''[\s\S]*?''' | "[^"\n\r]*" | '[^'\n\r]*')
        | [bB]?(?:\"\"\"(?:[^\\]|\\[\s\S])*?\"\"\" | '''(?:[^\\]|\\[\s\S])*?'''
                  | "[^"\\\n\r]*(?:\\.[^"\\\n\r]*)*" | '[^'\\\n\r]*(?:\\.[^'\\\n\r]*)*') )
    | ( [_a-zA-Z][_a-zA-Z0-9]* )
    | ( [0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ | \.[0-9]+(?:[eE][+-]?[0-9]+)? )
    | ( (?:0x[0-9a-fA-F]+ | [0-9]+)[uU]? )
    | ( `[a-zA-Z0-9_.\-/ ]+` )
    | ( \Z )
    | ( [\s\S] ) )
    """,
    re.VERBOSE,
)
# An identifier before a quote may be the prefix of a string, and is tried again after strings.
_IDENTIFIER, _OPERATOR, _STRING, _PREFIX, _DOUBLE, _INTEGER, _ESCAPED, _END = range(1, 9)
_NAMES = frozenset((_IDENTIFIER, _PREFIX))

Token = tuple[str, str, Any, int]
"""Kind, text, value of a literal, offset. Operators and keywords are kinds of their own, besides `ident`, `escaped`,
`literal` and `end`."""


def tokenize(text: str) -> list[Token]:
    tokens: list[Token] = []
    add = tokens.append
    for match in _TOKEN.finditer(text):
        form = match.lastindex or 0
        raw = match[form]
        offset = match.start(form)
        if form == _OPERATOR:
            add((raw, raw, None, offset))
        elif form in _NAMES:
            add((raw if raw in KEYWORDS else "ident", raw, None, offset))
        elif form == _STRING:
            add(("literal", raw, _string(raw, text, offset), offset))
        elif form == _INTEGER:
            add(("literal", raw, _integer(raw, text, offset), offset))
        elif form == _DOUBLE:
            add(("literal", raw, float(raw), offset))
        elif form == _ESCAPED:
            add(("escaped", raw[1:-1], None, offset))
        elif form == _END:
            break
        else:
            raise CompileError(f"Syntax error: token recognition error at: {raw!r}", text=text, offset=offset)
    add(("end", "<EOF>", None, len(text)))
    return tokens


def _string(raw: str, text: str, offset: int) -> str | bytes:
    try:
        return decode_string(raw)
    except ValueError as error:
        raise CompileError(f"Syntax error: {error}", text=text, offset=offset) from None


def _integer(raw: str, text: str, offset: int) -> int:
    """An int may still be 2^63 here: the parser allows it after a minus only."""
    if len(raw) < 19 and raw.isdigit():
        return int(raw)
    unsigned = raw[-1] in "uU"
    digits = raw[:-1] if unsigned else raw
    if len(digits) > 400:
        raise CompileError("invalid int literal", text=text, offset=offset)
    value = int(digits[2:], 16) if digits.startswith("0x") else int(digits)
    if unsigned:
        if value >= 2**64:
            raise CompileError("invalid uint literal", text=text, offset=offset)
        return Uint(value)
    if value > 2**63:
        raise CompileError("invalid int literal", text=text, offset=offset)
    return value
