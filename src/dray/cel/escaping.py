"""Names of properties as expressions write them: `foo-bar` is `foo__dash__bar`, as in Kubernetes.

A name that is a keyword stands between double underscores; one with other characters than these cannot be written.
"""

from __future__ import annotations

import re
from typing import Final

_KEYWORDS: Final = frozenset(
    "true false null in as break const continue else for function if import let loop package namespace return var void "
    "while".split()
)
_ESCAPABLE = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*", re.ASCII)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_PLAIN: Final = {escape: plain for plain, escape in _ESCAPES.items()}
_TO_ESCAPE = re.compile("__|[./-]")
_ESCAPED = re.compile("|".join(_PLAIN))


def is_keyword(name: str) -> bool:
    return name in _KEYWORDS


def escape(name: str) -> str | None:
    """Escapes a property name; None if it cannot be written in CEL."""
    if name in _KEYWORDS:
        return f"__{name}__"
    if _ESCAPABLE.fullmatch(name) is None:
        return None
    return _TO_ESCAPE.sub(lambda found: _ESCAPES[found.group()], name)


def unescape(name: str) -> str:
    if name.startswith("__") and name.endswith("__") and name[2:-2] in _KEYWORDS:
        return name[2:-2]
    return _ESCAPED.sub(lambda found: _PLAIN[found.group()], name)
