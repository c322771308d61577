"""JSONPath templates of `-o jsonpath=…`, in kubectl's syntax: text with paths in braces.

`{.metadata.name}` prints what a path leads to, separated by spaces; `{"\\n"}` prints a string;
`{range .items[*]}…{end}` repeats what stands between for each item. A template without braces is a path. A path that
leads nowhere prints nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from dray.api import json_path

# A part in braces; braces within quoted strings do not end it.
_PART: Final = re.compile(r"""\{((?:[^{}"']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')*)\}""")
_RANGE: Final = re.compile(r"range\s+(.+)", re.DOTALL)


class TemplateError(ValueError):
    """The template cannot be read; the text says why."""


@dataclass(slots=True)
class _Range:
    path: json_path.Path
    parts: list[_Part] = field(default_factory=list)


_Part = str | json_path.Path | _Range
Template = tuple[_Part, ...]


@lru_cache(maxsize=16)
def parse(text: str) -> Template:
    """Parses a template. Raises TemplateError."""
    if "{" not in text and "}" not in text:
        return (_path(text if text.startswith((".", "[", "$", "@")) else f".{text}"),)
    whole: list[_Part] = []
    levels = [whole]
    for piece, inner in _pieces(text):
        found = _RANGE.fullmatch(inner) if inner else None
        if not inner:
            levels[-1].append(piece)
        elif inner == "end":
            if len(levels) == 1:
                raise TemplateError("{end} without {range …} before it")
            levels.pop()
        elif found:
            repeated = _Range(_path(found[1]))
            levels[-1].append(repeated)
            levels.append(repeated.parts)
        else:
            levels[-1].append(_string(inner) if inner[0] in "\"'" else _path(inner))
    if len(levels) > 1:
        raise TemplateError("{range …} without {end}")
    return tuple(whole)


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yields text outside of braces as `(text, "")`, and what stands in braces as `("", text)`."""
    at = 0
    for match in _PART.finditer(text):
        if outside := text[at : match.start()]:
            yield _checked(outside), ""
        if not (inner := match[1].strip()):
            raise TemplateError("nothing in {}")
        yield "", inner
        at = match.end()
    if outside := text[at:]:
        yield _checked(outside), ""


def _checked(outside: str) -> str:
    if "{" in outside or "}" in outside:
        raise TemplateError(f"braces do not match: {outside}")
    return outside


def _path(text: str) -> json_path.Path:
    found = json_path.parse(text)
    if found is None:
        raise TemplateError(f"not a JSONPath: {text}")
    return found


def _string(text: str) -> str:
    quoted = text if text[0] == '"' else '"' + text[1:-1].replace('"', '\\"') + '"'
    try:
        return str(json.loads(quoted))
    except ValueError:
        raise TemplateError(f"not a string: {text}") from None


def render(template: Template, document: Any) -> str:
    """Returns what the template prints for a document."""
    return "".join(_rendered(part, document) for part in template)


def _rendered(part: _Part, document: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, _Range):
        items = json_path.find(part.path, document, limit=None)
        return "".join(_rendered(inner, item) for item in items for inner in part.parts)
    return " ".join(map(_text, json_path.find(part, document, limit=None)))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
