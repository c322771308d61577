"""Reads manifests that a program passes: paths, YAML text, or objects."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dray.answers.errors import InvalidInput
from dray.answers.manifests.reading import Reading, of_text, of_value, read

Given = str | os.PathLike[str] | Mapping[str, Any]
Manifests = Given | Iterable[Given] | Reading
"""One or several files, directories, YAML or JSON texts, or objects as dictionaries; or a Reading that was read before.

A string is text if it has a line break or begins with a brace, else a path.
"""
_TEXT: Final = "<text>"
_OBJECT: Final = "<object>"


def read_given(manifests: Manifests) -> Reading:
    """Returns the objects in the manifests, and the problems of files that cannot be read."""
    if isinstance(manifests, Reading):
        return manifests
    if isinstance(manifests, (str, os.PathLike, Mapping)):
        return _read([manifests], numbered=False)
    if not isinstance(manifests, Iterable):
        raise _no_manifest(manifests)
    return _read(manifests, numbered=True)


def _read(manifests: Iterable[Given], *, numbered: bool) -> Reading:
    reading = Reading()
    for number, given in enumerate(manifests, 1):
        place = f" {number}" if numbered else ""
        if isinstance(given, Mapping):
            found = of_value(f"{_OBJECT[:-1]}{place}>", copy.deepcopy(dict(given)))
        elif isinstance(given, str) and ("\n" in given or given.lstrip().startswith("{")):
            found = of_text(f"{_TEXT[:-1]}{place}>", given.encode())
        elif isinstance(given, (str, os.PathLike)):
            found = read([os.fspath(given)])
        else:
            raise _no_manifest(given)
        reading.manifests += found.manifests
        reading.problems += found.problems
    return reading


def _no_manifest(given: object) -> InvalidInput:
    return InvalidInput([f"{type(given).__name__} is no manifest: give a path, YAML text or a dictionary"])
