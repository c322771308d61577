"""Manifests as programs give them: paths, YAML text, or objects."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dray.answers.errors import InvalidInput
from dray.answers.manifests.reading import Reading, of_text, of_value, read

Given = str | os.PathLike[str] | Mapping[str, Any]
Manifests = Given | Iterable[Given] | Reading
"""Files and directories, YAML or JSON text (a string with a line break, or one that begins with a brace), and objects
as dictionaries; one or several. A Reading was read before."""
_TEXT: Final = "<text>"
_OBJECT: Final = "<object>"


def read_given(manifests: Manifests) -> Reading:
    if isinstance(manifests, Reading):
        return manifests
    if isinstance(manifests, (str, os.PathLike, Mapping)):
        return _read([manifests], numbered=False)
    return _read(manifests, numbered=True)


def _read(manifests: Iterable[Given], *, numbered: bool) -> Reading:
    reading = Reading()
    for number, each in enumerate(manifests, 1):
        place = f" {number}" if numbered else ""
        if isinstance(each, Mapping):
            found = of_value(f"{_OBJECT[:-1]}{place}>", copy.deepcopy(dict(each)))
        elif isinstance(each, str) and ("\n" in each or each.lstrip().startswith("{")):
            found = of_text(f"{_TEXT[:-1]}{place}>", each.encode())
        elif isinstance(each, (str, os.PathLike)):
            found = read([os.fspath(each)])
        else:
            raise InvalidInput([f"{type(each).__name__} is no manifest: give a path, YAML text or a dictionary"])
        reading.manifests += found.manifests
        reading.problems += found.problems
    return reading
