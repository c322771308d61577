"""What is left of a text without its literals, and where it falls into terms.

Plain strings and whole numbers are told by a regular expression; a text that needs the lexer for that has no shape.
So are the names of attributes and capacities, which are literals too here, as `["name"]` would be: what is selected
right after an index, together with the bracket and the dot before it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from dray.cel.lexer import KEYWORDS, RESERVED

MAX_LITERAL: Final = 126
"""The characters of a string that is plain."""
# Words of the language, and what the estimate of costs knows by name.
_NO_NAMES: Final = "|".join(sorted(RESERVED | KEYWORDS | {"device"}))
# All begin with one of a set of characters, for which the search is quick.
_LITERAL: Final = re.compile(
    rf"""(["'\]0-9] (?:
        (?<=")[^"\\\n\r]{{0,126}}+"
        | (?<=')[^'\\\n\r]{{0,126}}+'
        | \.(?<=\].)(?!(?:{_NO_NAMES})\b)[a-zA-Z_]\w*+(?![ \t\r\n\f]*+[("'])
        | (?<=[0-9])(?<![\w.][0-9])[0-9]{{0,17}}+(?![\w.])
    ))""",
    re.ASCII | re.VERBOSE,
)
_STRING_MARK: Final = "\x01"
_INTEGER_MARK: Final = "\x02"
_NAME_MARK: Final = "\x03"
_MARK: Final = re.compile("[\x01\x02\x03]")
_MARKS: Final = {
    '"': _STRING_MARK,
    "'": _STRING_MARK,
    "]": _NAME_MARK,
    **dict.fromkeys("0123456789", _INTEGER_MARK),
}
# Where these are outside of plain literals, the text is left to the compiler: long strings, escapes, comments.
_INTRICATE: Final = ('"', "'", "`", "\\", "//", _STRING_MARK + _STRING_MARK)
_STRUCTURE: Final = re.compile(r"[(\[{)\]}\x03]|\|\||\.[ \t\r\n\f]*\?|\?")
_BLANK: Final = " \t\r\n\f"
_MAX_TEXT: Final = 1024
_MAX_TERMS: Final = 16
_KNOWN_FORMS: Final = 64
_KNOWN_PIECES: Final = 128


class Shape(NamedTuple):
    form: str
    """The text with marks in place of literals."""
    literals: list[str]
    """As they stand in the text; a name with the `].` before it."""

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
    if len(text) > _MAX_TEXT or _STRING_MARK in text or _INTEGER_MARK in text or _NAME_MARK in text:
        return None
    parts = _LITERAL.split(text)
    literals = parts[1::2]
    parts[1::2] = [_MARKS[literal[0]] for literal in literals]
    form = "".join(parts)
    for sign in _INTRICATE:
        if sign in form:
            return None
    return Shape(form, literals)


def names_of(literals: list[str]) -> tuple[str, ...]:
    return tuple([literal for literal in literals if literal[0] == "]"])


@lru_cache(maxsize=_KNOWN_FORMS)
def parts_of(form: str) -> tuple[Part, ...]:
    """The terms of a conjunction; a single part where it is none, or one of too many terms."""
    measures = [_measure(piece) for piece in form.split("&&")]
    if any([depth for _, _, depth, _ in measures]):
        measures = [_measure(term) for term in _joined(form.split("&&"), measures)]
    if not 1 < len(measures) <= _MAX_TERMS or any([loose for _, _, _, loose in measures]):
        return (Part(form, 0, len(_MARK.findall(form))),)
    parts: list[Part] = []
    start = 0
    for term, literals, _, _ in measures:
        parts.append(Part(term, start, start + literals))
        start += literals
    return tuple(parts)


def forget() -> None:
    """Nothing is kept of the forms seen before."""
    parts_of.cache_clear()
    _measure.cache_clear()


class _Measure(NamedTuple):
    """What counts of a text between two `&&`."""

    term: str
    literals: int
    depth: int
    """How many brackets it leaves open; less than none if it closes some of those before it."""
    loose: bool


@lru_cache(maxsize=_KNOWN_PIECES)
def _measure(piece: str) -> _Measure:
    count = piece.count
    names = count(_NAME_MARK)
    depth = count("(") + count("[") + count("{") - count(")") - count("]") - count("}") - names
    loose = ("?" in piece or "||" in piece) and _loose(piece)
    return _Measure(piece.strip(_BLANK), count(_STRING_MARK) + count(_INTEGER_MARK) + names, depth, loose)


def _joined(pieces: list[str], measures: list[_Measure]) -> list[str]:
    """What stands between `&&` outside of all brackets; nothing if those are not closed."""
    terms: list[str] = []
    open_: list[str] = []
    depth = 0
    for piece, measure in zip(pieces, measures, strict=True):
        open_.append(piece)
        depth += measure.depth
        if depth == 0:
            terms.append("&&".join(open_))
            open_ = []
    return [] if open_ else terms


def _loose(term: str) -> bool:
    """Whether there is `||` or `?:` outside of all brackets."""
    depth = 0
    for match in _STRUCTURE.finditer(term):
        symbol = match[0]
        if symbol in "([{":
            depth += 1
        elif symbol in ")]}\x03":
            depth -= 1
        elif depth == 0 and (symbol == "||" or symbol == "?"):
            return True
    return False
