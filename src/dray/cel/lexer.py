"""Text to tokens. One regular expression knows every token; `decode_string` reads string and bytes literals.

`conditions` are the texts that `&&` joins in a selector, so that it can be said which of them is not met.
"""

from __future__ import annotations

import re
from typing import Any, Final

from dray.cel.errors import CompileError
from dray.cel.values import Uint

_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|([\s\S]?))"
)

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
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")


def decode_string(raw: str) -> str | bytes:
    """The value of a literal as it stands in the text, quotes and prefixes included; raises ValueError."""
    # Neither prefix nor escape, and a single quote or it would be followed by another.
    if raw[0] in "\"'" and raw[1] != raw[0] and "\\" not in raw:
        return raw[1:-1]
    binary = raw[0] in "bB"
    body = raw[1:] if binary else raw
    verbatim = body[0] in "rR"
    if verbatim:
        body = body[1:]
    quotes = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    body = body[quotes:-quotes].replace("\r\n", "\n").replace("\r", "\n")
    if binary:
        return body.encode() if verbatim else _decode_bytes(body)
    return body if verbatim else _ESCAPE.sub(_character, body)


def _character(match: re.Match[str]) -> str:
    simple, hexadecimal, short, long, octal, wrong = match.groups()
    if simple is not None:
        return _SIMPLE[simple]
    if wrong is not None:
        raise ValueError(f"unsupported escape sequence \\{wrong}")
    point = int(octal, 8) if octal is not None else int(hexadecimal or short or long, 16)
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise ValueError("escape sequence is not a Unicode character")
    return chr(point)


def _decode_bytes(body: str) -> bytes:
    out = bytearray()
    position = 0
    for match in _ESCAPE.finditer(body):
        out += body[position : match.start()].encode()
        position = match.end()
        simple, hexadecimal, short, long, octal, wrong = match.groups()
        if simple is not None:
            out += _SIMPLE[simple].encode()
        elif short is not None or long is not None or wrong is not None:
            raise ValueError(f"unsupported escape sequence in bytes: {match.group()}")
        else:
            out.append(int(octal, 8) if octal is not None else int(hexadecimal, 16))
    return bytes(out + body[position:].encode())


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


def conditions(expression: str) -> list[str]:
    """Outside of all brackets; the whole text where `||` or `?` stands there, or where it cannot be read."""
    try:
        tokens = tokenize(expression)
    except CompileError:
        return [expression]
    depth, cuts = 0, [0]
    for kind, text, _, offset in tokens:
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 0 and text in ("||", "?"):
            return [expression]
        if depth == 0 and text == "&&":
            cuts += [offset, offset + 2]
    cuts.append(len(expression))
    return [expression[start:end].strip() for start, end in zip(cuts[::2], cuts[1::2], strict=True)]
