"""Objects as YAML or JSON, in a form that kubectl reads back as the same objects.

YAML is written in block style, in the order of the keys, without anchors. The objects are plain JSON data. They are
written directly, because a general emitter makes nodes and events of them first and takes ten times as long.

A string is plain where neither go-yaml (kubectl and the API server, see `scalars`) nor a reader of YAML 1.1 such as
PyYAML takes it for something else, a block where it has several lines. Single quotes stand around what is printable,
double quotes with escapes around the rest: control characters, tabs, line separators other than \\n, and what libyaml
does not print.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import yaml

from dray.yaml.scalars import WORDS, is_text

# In bytes: a longer key is written after a question mark, as libyaml does. Readers take 1024 characters.
_LONGEST_KEY: Final = 128
# In characters: what is nested deeper is written on one line, so that a small object does not become a large text.
_WIDEST_MARGIN: Final = 100
# Strings occur again and again in a list of objects. So many are kept with what they are written as.
_MOST_KNOWN: Final = 10_000
_LONGEST_KNOWN: Final = 64
_COLLECTIONS: Final = (dict, list, tuple)
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


def as_yaml(objects: Sequence[dict[str, Any] | list[Any]]) -> str:
    writer = Writer()
    start = "---\n" if len(objects) > 1 else ""
    return "".join(start + writer.write(each) for each in objects)


def as_document(objects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns one object as itself, several as a List, which kubectl takes in one piece."""
    return objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def as_json(objects: Sequence[dict[str, Any]]) -> str:
    """Returns `as_document` as JSON."""
    return json.dumps(as_document(objects), indent=2, ensure_ascii=False) + "\n"


class Writer:
    """Writes values one after the other. `lead` stands before the first line of a value and `margin` before others."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._lines: list[str] = []

    def write(self, value: Any) -> str:
        self._value(value, "", "")
        written = "".join(self._lines)
        self._lines.clear()
        return written

    def write_list(self, name: str, items: Iterable[Any]) -> Iterator[str]:
        """A member of a mapping: its name, then each item as it comes."""
        yield f"{self._key(name, '')}:\n"
        for item in items:
            yield self.write([item])

    def _value(self, value: Any, lead: str, margin: str) -> None:
        if not value or not isinstance(value, _COLLECTIONS):
            self._lines.append(f"{lead}{self._scalar(value, margin)}\n")
        elif len(margin) > _WIDEST_MARGIN:
            self._flow(value, lead, "\n")
        elif isinstance(value, dict):
            self._mapping(value, lead, margin)
        else:
            self._sequence(value, lead, margin)

    def _mapping(self, value: dict[str, Any], lead: str, margin: str) -> None:
        add, known, inner = self._lines.append, self._known, margin + "  "
        for key, each in value.items():
            name = known.get(key) or self._key(key, margin)
            if isinstance(each, str):
                add(f"{lead}{name}: {known.get(each) or self._text(each, inner)}\n")
            elif not each or not isinstance(each, _COLLECTIONS):
                add(f"{lead}{name}: {self._scalar(each, inner)}\n")
            elif len(inner) > _WIDEST_MARGIN:
                self._flow(each, f"{lead}{name}: ", "\n")
            else:
                add(f"{lead}{name}:\n")
                below = inner if isinstance(each, dict) else margin
                self._value(each, below, below)
            lead = margin

    def _sequence(self, value: Sequence[Any], lead: str, margin: str) -> None:
        inner = margin + "  "
        for each in value:
            self._value(each, lead + "- ", inner)
            lead = margin

    def _flow(self, value: Any, lead: str, end: str) -> None:
        """On one line, as JSON but for the mark of a key, without which its length is limited."""
        add = self._lines.append
        if not value or not isinstance(value, _COLLECTIONS):
            add(f"{lead}{quoted(value) if isinstance(value, str) else self._scalar(value, '')}{end}")
        elif isinstance(value, dict):
            add(lead)
            for number, (key, each) in enumerate(value.items()):
                self._flow(each, f"{', ' if number else '{'}? {quoted(key)} : ", "")
            add("}" + end)
        else:
            add(lead)
            for number, each in enumerate(value):
                self._flow(each, ", " if number else "[", "")
            add("]" + end)

    def _scalar(self, value: Any, margin: str) -> str:
        """A scalar or an empty collection; the lines of a text have the margin."""
        match value:
            case str():
                return self._known.get(value) or self._text(value, margin)
            case None:
                return "null"
            case bool():
                return "true" if value else "false"
            case int():
                return str(value)
            case float():
                return _number(value)
            case dict():
                return "{}"
            case list() | tuple():
                return "[]"
        raise TypeError(f"{type(value).__name__} is not JSON")

    def _key(self, key: str, margin: str) -> str:
        name = inline(key) if "\n" in key else self._text(key, margin)
        return f"? {name}\n{margin}" if len(key.encode()) > _LONGEST_KEY else name

    def _text(self, text: str, margin: str) -> str:
        if "\n" in text:
            return block(text, margin)
        written = inline(text)
        if len(text) <= _LONGEST_KNOWN:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[text] = written
        return written


def _number(value: float) -> str:
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    text = repr(value)
    # Without the point, a reader of YAML 1.1 takes it for text.
    return text if "." in text else text.replace("e", ".0e")


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
