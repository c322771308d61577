"""What is left of a text without its literals, and where it falls into terms.

Plain strings and whole numbers are told by a regular expression; a text that needs the lexer for that has no shape.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

MAX_LITERAL: Final = 126
"""The characters of a string that is plain."""
# Every way to start is a single character, so that the search for it is quick.
_LITERAL: Final = re.compile(
    r"""("[^"\\\n\r]{0,126}" | '[^'\\\n\r]{0,126}' | [0-9](?<![\w.][0-9])[0-9]{0,17}(?![\w.]))""", re.ASCII | re.VERBOSE
)
_STRING_MARK: Final = "\x01"
_INTEGER_MARK: Final = "\x02"
_MARK: Final = re.compile("[\x01\x02]")
# Where these are outside of plain literals, the text is left to the compiler: long strings, escapes, comments.
_INTRICATE: Final = ('"', "'", "`", "\\", "//", _STRING_MARK + _STRING_MARK)
_STRUCTURE: Final = re.compile(r"[(\[{)\]}]|\|\||\.[ \t\r\n\f]*\?|\?")
_BLANK: Final = " \t\r\n\f"
_MAX_TEXT: Final = 1024
_MAX_TERMS: Final = 16
_KNOWN_FORMS: Final = 64


class Shape(NamedTuple):
    form: str
    """The text with marks in place of literals."""
    literals: list[str]
    """As they stand in the text."""

    @property
    def text(self) -> str:
        parts = _MARK.split(self.form)
        return "".join([part for pair in zip(parts, [*self.literals, ""], strict=True) for part in pair])

    def offsets(self) -> list[int]:
        """Where in the text the literals start."""
        found: list[int] = []
        longer = 0
        for match, literal in zip(_MARK.finditer(self.form), self.literals, strict=True):
            found.append(match.start() + longer)
            longer += len(literal) - 1
        return found


class Part(NamedTuple):
    """A term of a form, and which of the literals are its own."""

    form: str
    start: int
    end: int


def shape_of(text: str) -> Shape | None:
    """None where the text is too long, or not simple enough to tell its literals without the lexer."""
    if len(text) > _MAX_TEXT or _STRING_MARK in text or _INTEGER_MARK in text:
        return None
    parts = _LITERAL.split(text)
    literals = parts[1::2]
    parts[1::2] = [_STRING_MARK if literal[0] in "\"'" else _INTEGER_MARK for literal in literals]
    form = "".join(parts)
    for sign in _INTRICATE:
        if sign in form:
            return None
    return Shape(form, literals)


@lru_cache(maxsize=_KNOWN_FORMS)
def parts_of(form: str) -> tuple[Part, ...]:
    """The terms of a conjunction; a single part where it is none, or one of too many terms."""
    terms = _terms(form)
    if not 1 < len(terms) <= _MAX_TERMS:
        return (Part(form, 0, len(_MARK.findall(form))),)
    parts: list[Part] = []
    start = 0
    for term in terms:
        end = start + term.count(_STRING_MARK) + term.count(_INTEGER_MARK)
        parts.append(Part(term.strip(_BLANK), start, end))
        start = end
    return tuple(parts)


def _terms(form: str) -> list[str]:
    """What stands between `&&` outside of all brackets; nothing if something there binds less."""
    terms: list[str] = []
    pieces: list[str] = []
    depth = 0
    for piece in form.split("&&"):
        pieces.append(piece)
        count = piece.count
        depth += count("(") + count("[") + count("{") - count(")") - count("]") - count("}")
        if depth == 0:
            term = "&&".join(pieces)
            if ("?" in term or "||" in term) and _loose(term):
                return []
            terms.append(term)
            pieces = []
    return [] if pieces else terms


def _loose(term: str) -> bool:
    """Whether there is `||` or `?:` outside of all brackets."""
    depth = 0
    for match in _STRUCTURE.finditer(term):
        symbol = match[0]
        if symbol in "([{":
            depth += 1
        elif symbol in ")]}":
            depth -= 1
        elif depth == 0 and (symbol == "||" or symbol == "?"):
            return True
    return False
