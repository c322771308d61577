"""Styles of strings in YAML: plain where it reads back as the same string, else quoted or, with several lines, a block.

Plain is what neither go-yaml (kubectl and the API server, see `scalars`) nor a reader of YAML 1.1 such as PyYAML takes
for something else. Single quotes stand around what is printable, double quotes with escapes around the rest: control
characters, tabs, line separators other than \\n, and what libyaml does not print.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import yaml

from dray.yaml.scalars import WORDS, is_text

_UNICODE: Final = r"\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd"
_PRINTABLE: Final = re.compile(rf"[\x20-\x7e{_UNICODE}]*\Z")
_PRINTABLE_LINES: Final = re.compile(rf"[\n\x20-\x7e{_UNICODE}]*\Z")
# In runs that are not too long to let other threads go on.
_TO_ESCAPE: Final = re.compile(rf"[^\x20\x21\x23-\x5b\x5d-\x7e{_UNICODE}]{{1,100}}")
_ESCAPES: Final = {
    **dict(zip("\0\a\b\t\n\v\f\r\x1b", "0abtnvfre", strict=True)),
    **dict(zip('"\\\x85\u2028\u2029', '"\\NLP', strict=True)),
}

# Most strings are names, ids and sentences, numbers and times. The rest is looked at more closely.
_PLAIN: Final = re.compile(r"(?:[A-Za-z/_$(]|[0-9]++[acdf-np-wyzACDF-NP-WYZ])[ !\"$-9;-~]*+(?<! )\Z")
_QUOTED: Final = re.compile(r"[0-9]+\Z|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z\Z")
_INDICATORS: Final = frozenset("#,[]{}&*!|>'\"%@` ")
_WORDS: Final = frozenset({*WORDS, "<<", "="})
_RESOLVERS: Final[dict[str, list[tuple[str, Any]]]] = yaml.SafeLoader.yaml_implicit_resolvers


def inline(text: str) -> str:
    """A string on one line, also as a key."""
    if _PLAIN.match(text):
        return f"'{text}'" if text in _WORDS else text
    if _QUOTED.match(text):
        return f"'{text}'"
    if not (text.isprintable() if text.isascii() else _PRINTABLE.match(text)):
        return quoted(text)
    if _may_be_plain(text) and _stays_text(text):
        return text
    return "'" + text.replace("'", "''") + "'"


def block(text: str, margin: str) -> str:
    """A string with \\n in it, as a literal block whose lines have a margin, or on one line where none can hold it."""
    if text[-1] == " " or " \n" in text or not _PRINTABLE_LINES.match(text):
        return inline(text)
    indent = "2" if text[0] in " \n" else ""
    body, ending = (text[:-1], "") if text[-1] == "\n" else (text, "-")
    if text == "\n" or text.endswith("\n\n"):
        ending = "+"
    lines = [margin + line if line else "" for line in body.split("\n")]
    return "\n".join([f"|{indent}{ending}", *lines])


def quoted(text: str) -> str:
    """A string in double quotes, as it can stand everywhere."""
    return f'"{_TO_ESCAPE.sub(_escape, text)}"'


def _may_be_plain(text: str) -> bool:
    """Whether the characters of a printable string allow it to stand without quotes in a block."""
    if not text or text[0] in _INDICATORS or text[-1] in " :" or ": " in text or " #" in text:
        return False
    return not (text[0] in "-?" and text[1:2] in (" ", "")) and not text.startswith(("---", "..."))


def _stays_text(text: str) -> bool:
    if text in _WORDS or not is_text(text):
        return False
    return not any(pattern.match(text) for _, pattern in _RESOLVERS.get(text[0], ()))


def _escape(found: re.Match[str]) -> str:
    return "".join(map(_escaped, found[0]))


@lru_cache(1024)
def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return "\\" + _ESCAPES[character]
    code = ord(character)
    return f"\\x{code:02X}" if code <= 0xFF else f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"
