"""Reads Kubernetes objects from files, directories and standard input.

`read` takes the paths of a command line. It returns every object with its place, and a problem for every file that
cannot be read; one bad file does not hide the others. It reads at most one byte more than the limit of a file.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from dray.yaml.documents import parse
from dray.yaml.text import ManifestError, Position

MAX_BYTES: Final = 16 * 1024 * 1024
SUFFIXES: Final = (".yaml", ".yml", ".json")
STDIN: Final = "<stdin>"


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object, and its place in a file."""

    source: str
    document: dict[str, Any]
    place: Position

    @property
    def api_version(self) -> str:
        return _text(self.document.get("apiVersion"))

    @property
    def kind(self) -> str:
        return _text(self.document.get("kind"))

    @property
    def name(self) -> str:
        return self._metadata("name")

    @property
    def namespace(self) -> str:
        return self._metadata("namespace")

    @property
    def title(self) -> str:
        return " ".join(part for part in (self.kind, self.name) if part)

    def _metadata(self, member: str) -> str:
        metadata = self.document.get("metadata")
        return _text(metadata.get(member)) if isinstance(metadata, dict) else ""


@dataclass(slots=True)
class Reading:
    """The objects in some files, and the problems of files that cannot be read."""

    manifests: list[Manifest] = field(default_factory=list)
    problems: list[ManifestError] = field(default_factory=list)


def read(paths: Iterable[str]) -> Reading:
    """Returns the objects in files and directories, in the order of `paths`; `-` is standard input."""
    reading = Reading()
    seen = set()
    for path in paths:
        for source in [STDIN] if path == "-" else _files(path):
            if source in seen:
                continue
            seen.add(source)
            try:
                reading.manifests += _manifests(source)
            except ManifestError as problem:
                problem.source = source
                reading.problems.append(problem)
    return reading


def of_text(source: str, content: bytes) -> Reading:
    """Returns the objects in YAML or JSON text; `source` is its name in errors."""
    return _reading(source, lambda: _parsed(source, content))


def of_value(source: str, value: dict[str, Any]) -> Reading:
    """Returns the object, or the objects of a list; all have the place 1:1."""
    return _reading(source, lambda: list(_objects(source, value, Position(1, 1))))


def _reading(source: str, load: Callable[[], list[Manifest]]) -> Reading:
    try:
        return Reading(load())
    except ManifestError as problem:
        problem.source = source
        return Reading(problems=[problem])


def _files(path: str) -> list[str]:
    """Returns the file itself, or the sorted manifests in a directory; skips names that start with a dot."""
    found = []
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [
            os.path.join(folder, name)
            for name in sorted(files)
            if name.endswith(SUFFIXES) and not name.startswith(".") and os.path.isfile(os.path.join(folder, name))
        ]
    return found or [path]


def _manifests(source: str) -> list[Manifest]:
    return _parsed(source, _content(source))


def _parsed(source: str, content: bytes) -> list[Manifest]:
    try:
        return [
            manifest for document in parse(content) for manifest in _objects(source, document.value, document.place)
        ]
    except ManifestError as problem:
        if _HELM.search(content):
            problem.message += "; this is a Helm template: lint what `helm template` makes of it"
        raise


_HELM: Final = re.compile(rb"{{-?\s*(?:[.$]|/\*|(?:if|else|end|range|with|include|define|template|tpl|toYaml)\b)")


def _content(source: str) -> bytes:
    try:
        if source == STDIN:
            return _limited(sys.stdin.buffer)
        if os.path.isdir(source):
            raise ManifestError(f"no {', '.join('*' + suffix for suffix in SUFFIXES)} in this directory")
        with open(source, "rb") as stream:
            if os.fstat(stream.fileno()).st_size > MAX_BYTES:
                raise _too_large()
            return _limited(stream)
    except OSError as error:
        raise ManifestError(f"cannot read: {(error.strerror or str(error)).lower()}") from None


def _limited(stream: BinaryIO) -> bytes:
    data = stream.read(MAX_BYTES + 1) or b""
    if len(data) > MAX_BYTES:
        raise _too_large()
    return data


def _too_large() -> ManifestError:
    message = f"larger than {MAX_BYTES // 1024 // 1024} MiB; split it into smaller files"
    return ManifestError(message, line=1, column=1)


def _objects(source: str, value: Any, place: Position) -> Iterator[Manifest]:
    """Yields the object itself, or the objects of a list; the items of a typed list inherit its kind."""
    waiting = [(value, place)]
    while waiting:
        value, place = waiting.pop()
        if not isinstance(value, dict):
            what = "a list" if isinstance(value, list) else "a single value"
            raise ManifestError(
                f"{what} where a Kubernetes object belongs; an object is a mapping with apiVersion and kind",
                line=place.line,
                column=place.column,
            )
        kind, items = value.get("kind"), value.get("items")
        if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
            yield Manifest(source, value, place)
            continue
        places = _item_places(place, len(items))
        inherited = {} if kind == "List" else {"apiVersion": value.get("apiVersion"), "kind": kind[:-4]}
        for item, item_place in zip(reversed(items), reversed(places), strict=True):
            waiting.append(({**inherited, **item} if isinstance(item, dict) else item, item_place))


def _item_places(place: Position, count: int) -> list[Position]:
    items = place.child("items")
    below = items.below if items is not None else None
    return below if isinstance(below, list) else [place] * count


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
