"""Text to tokens. One regular expression knows every token; string bodies are decoded by `literals`."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from dray.cel.errors import CompileError
from dray.cel.literals import decode_string
from dray.cel.values import Uint

RESERVED = frozenset(
    "as break const continue else for function if import let loop package namespace return var void while".split()
)
_KEYWORDS = frozenset(("in", "true", "false", "null"))

_TOKEN = re.compile(
    r"""
      (?P<space> (?:[ \t\r\n\f]+ | //[^\n]*)+ )
    | (?P<string> [bB]?[rR](?:\"\"\"[\s\S]*?\"\"\" | '''[\s\S]*?''' | "[^"\n\r]*" | '[^'\n\r]*')
        | [bB]?(?:\"\"\"(?:[^\\]|\\[\s\S])*?\"\"\" | '''(?:[^\\]|\\[\s\S])*?'''
                  | "(?:[^"\\\n\r]|\\.)*" | '(?:[^'\\\n\r]|\\.)*') )
    | (?P<double> [0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ | \.[0-9]+(?:[eE][+-]?[0-9]+)? )
    | (?P<int> (?:0x[0-9a-fA-F]+ | [0-9]+)[uU]? )
    | (?P<ident> [_a-zA-Z][_a-zA-Z0-9]* )
    | (?P<escaped> `[a-zA-Z0-9_.\-/ ]+` )
    | (?P<op> && | \|\| | == | != | <= | >= | [-+*/%<>!?:.,()\[\]{}] )
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    kind: str
    """`ident`, `escaped`, `literal`, `keyword`, `op` or `end`; for `op` and `keyword`, `text` tells which."""
    text: str
    value: Any
    offset: int


def tokenize(text: str) -> list[Token]:
    tokens: list[Token] = []
    offset = 0
    following = _TOKEN.scanner(text).match  # type: ignore[attr-defined]
    while offset < len(text):
        match = following()
        if match is None:
            raise CompileError(f"Syntax error: token recognition error at: {text[offset]!r}", text=text, offset=offset)
        kind = match.lastgroup or ""
        if kind != "space":
            tokens.append(_token(kind, match.group(), text, offset))
        offset = match.end()
    tokens.append(Token("end", "<EOF>", None, len(text)))
    return tokens


def _token(kind: str, raw: str, text: str, offset: int) -> Token:
    if kind == "ident":
        return Token("keyword" if raw in _KEYWORDS else "ident", raw, None, offset)
    if kind == "escaped":
        return Token("escaped", raw[1:-1], None, offset)
    if kind == "op":
        return Token("op", raw, None, offset)
    if kind == "double":
        return Token("literal", raw, float(raw), offset)
    if kind == "int":
        return Token("literal", raw, _integer(raw, text, offset), offset)
    try:
        return Token("literal", raw, decode_string(raw), offset)
    except ValueError as error:
        raise CompileError(f"Syntax error: {error}", text=text, offset=offset) from None


def _integer(raw: str, text: str, offset: int) -> int:
    """An int may still be 2^63 here: the parser allows it after a minus only."""
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
