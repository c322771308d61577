"""The file of a snapshot: JSON lines, compressed with gzip.

The first line is the header: format, version, time, and the kinds that the server has. Each kind has its number of
objects, or the answer of the server if it refused to list them. Every other line has one object. A file that is
damaged, cut short, too large or of another version raises a `SnapshotError` of one line.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from dray.api.objects import Key, Object
from dray.process.memory import loading

FORMAT: Final = "snapshot.dray.dev"
VERSION: Final = 1
MOST_BYTES: Final = 2 * 1024**3
"""The largest size of a file after decompression."""
MOST_OBJECTS: Final = 5_000_000
_LONGEST_LINE: Final = 32 * 1024**2
_LEVEL: Final = 3
_LATEST: Final = 253_402_300_799.0
"""The end of the year 9999."""
_ALWAYS_THERE: Final = frozenset((("v1", "pods"), ("v1", "nodes")))
"""Kinds that every server has."""


class SnapshotError(Exception):
    """A file cannot be read or written; the message is one line that says why."""


class Refusal(msgspec.Struct, frozen=True, rename="camel"):
    """The answer of the server if it refused to list a kind."""

    status: int
    reason: str
    message: str


class ListedKind(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A kind that the server has. Without a `refusal` the file has all its objects; `objects` is their number."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    objects: int = 0
    resource_version: str = ""
    refusal: Refusal | None = None

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class Header(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    format: str = FORMAT
    version: int = VERSION
    taken_at: float
    """The time in seconds since 1970."""
    namespace: str
    """The default namespace of the user who took the snapshot."""
    kinds: tuple[ListedKind, ...]
    consistent: bool = True
    """True if all lists show the cluster at the same moment."""


class Snapshot(msgspec.Struct, frozen=True):
    header: Header
    objects: dict[tuple[str, str], list[Object]]
    """The objects by apiVersion and kind. As in lists of an API server, the objects lack these two fields."""


class StoredObject(NamedTuple):
    """An object of a file: its key, and the object as JSON, which most users pass on without decoding it."""

    key: Key
    json: bytes


class StoredSnapshot(msgspec.Struct, frozen=True):
    header: Header
    objects: dict[tuple[str, str], list[StoredObject]]


class _Line(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    object: msgspec.Raw


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _Version(msgspec.Struct, frozen=True):
    format: str = ""
    version: Any = None


_header: Final = msgspec.json.Decoder(Header)
_version: Final = msgspec.json.Decoder(_Version)
_line: Final = msgspec.json.Decoder(_Line)
_named: Final = msgspec.json.Decoder(_Named)
_encoder: Final = msgspec.json.Encoder()


def write(snapshot: Snapshot, path: Path) -> int:
    """Writes the file and returns its size in bytes. The name exists only after the file is complete."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("wb") as raw, gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as file:
            file.write(_encoder.encode(snapshot.header) + b"\n")
            for (api_version, kind), objects in snapshot.objects.items():
                named = {"apiVersion": api_version, "kind": kind}
                file.writelines(_encoder.encode({**named, "object": obj}) + b"\n" for obj in objects)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise SnapshotError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
    return path.stat().st_size


def read(path: Path) -> StoredSnapshot:
    """Reads a file of a snapshot. Raises SnapshotError."""
    try:
        with loading(), gzip.open(path, "rb") as file:
            lines = _lines(file)
            header = _read_header(next(lines, b""))
            return StoredSnapshot(header, _read_objects(header, lines))
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from None
    except gzip.BadGzipFile as error:
        cause = "not a snapshot" if "Not a gzipped file" in str(error) else "damaged"
        raise SnapshotError(f"{path}: {cause}; `dray snapshot -o FILE` writes one") from None
    except (EOFError, zlib.error):
        raise SnapshotError(f"{path}: damaged or cut short; take the snapshot again") from None
    except OSError as error:
        raise SnapshotError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None


def _lines(file: gzip.GzipFile) -> Iterator[bytes]:
    total = 0
    while line := file.readline(_LONGEST_LINE + 1):
        total += len(line)
        if len(line) > _LONGEST_LINE or total > MOST_BYTES:
            raise SnapshotError(f"larger than a snapshot can be ({MOST_BYTES // 1024**3} GiB, 32 MiB a line)")
        yield line


def _read_header(line: bytes) -> Header:
    try:
        found = _version.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise SnapshotError("not a snapshot; `dray snapshot -o FILE` writes one") from None
    if found.format != FORMAT:
        raise SnapshotError("not a snapshot; `dray snapshot -o FILE` writes one")
    if found.version != VERSION:
        raise SnapshotError(f"version {found.version!r} of the format; this dray reads version {VERSION}")
    try:
        header = _header.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(f"damaged header: {error}") from None
    if not 0 <= header.taken_at <= _LATEST:
        raise SnapshotError(f"damaged header: takenAt is {header.taken_at}")
    if missing := _ALWAYS_THERE - {(kind.api_version, kind.plural) for kind in header.kinds}:
        raise SnapshotError(f"damaged header: it has no {min(missing)[1]}")
    return header


def _read_objects(header: Header, lines: Iterator[bytes]) -> dict[tuple[str, str], list[StoredObject]]:
    found: dict[tuple[str, str], list[StoredObject]] = {
        (kind.api_version, kind.kind): [] for kind in header.kinds if kind.refusal is None
    }
    for number, line in enumerate(lines, 2):
        try:
            read = _line.decode(line)
            named = _named.decode(read.object)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise SnapshotError(f"line {number} is damaged: {error or 'nested too deep'}") from None
        for member, value in (("spec", named.spec), ("status", named.status)):
            if not bytes(value).startswith(b"{"):
                raise SnapshotError(f"line {number} is damaged: {member} is not a mapping")
        objects = found.get((read.api_version, read.kind))
        if objects is None or number > MOST_OBJECTS:
            raise SnapshotError(f"line {number} is damaged: {read.kind[:40]!r} is not in the header")
        objects.append(StoredObject((named.metadata.namespace, named.metadata.name), bytes(read.object)))
    expected = Counter({(kind.api_version, kind.kind): kind.objects for kind in header.kinds})
    for key, objects in found.items():
        if len(objects) != expected[key]:
            raise SnapshotError(f"cut short: {len(objects)} of {expected[key]} objects of kind {key[1]}")
    return found
