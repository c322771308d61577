"""Archive of `dray backup`: a tar file with the store, the keys and the address of a cluster.

    backup.json          format, version of dray, when it was made
    store/store.db       all objects, as SQLite keeps them
    pki/…                the authority of the cluster, and the keys that its tokens are signed with
    kubeconfig, address.json

Pods of the machine, their logs and volumes are not in it. The file has everything that an attacker wants, so only its
owner may read it.
"""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import IO, Final

import msgspec

FORMAT: Final = 1
STORE: Final = "store/store.db"
_ABOUT: Final = "backup.json"
_FILES: Final = ("kubeconfig", "address.json")
_PKI: Final = "pki"


class ArchiveError(Exception):
    """A backup that cannot be written or restored, and why."""


class About(msgspec.Struct, frozen=True):
    format: int
    dray: str
    created: str


def write(path: Path, data: Path, store: bytes) -> About:
    """Writes a backup of the data directory with this copy of its store. Raises ArchiveError.

    The file appears under its name when it is complete.
    """
    about = About(FORMAT, version("dray"), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    made = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            _write(file, data, store, about)
            file.flush()
            os.fsync(file.fileno())
        _name(made, path)
    except FileExistsError:
        raise ArchiveError(f"{path} exists; remove it, or give the backup another name") from None
    except OSError as error:
        at_fault = path if error.filename in (None, str(made)) else error.filename
        raise ArchiveError(f"{at_fault}: {error.strerror}") from None
    finally:
        made.unlink(missing_ok=True)
    return about


def _name(made: Path, path: Path) -> None:
    """Gives a file its name, unless another file has it. Raises FileExistsError."""
    try:
        os.link(made, path)
    except FileExistsError:
        raise
    except OSError:
        # File systems of some removable disks have no links.
        if path.exists():
            raise FileExistsError from None
        made.rename(path)


def _write(file: IO[bytes], data: Path, store: bytes, about: About) -> None:
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
        _add(archive, _ABOUT, msgspec.json.encode(about))
        _add(archive, STORE, store)
        for place in _kept(data):
            _add(archive, str(place.relative_to(data)), place.read_bytes())


def _kept(data: Path) -> Iterator[Path]:
    yield from (data / name for name in _FILES if (data / name).is_file())
    yield from sorted(place for place in (data / _PKI).rglob("*") if place.is_file())


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(content), 0o600, int(time.time())
    archive.addfile(member, io.BytesIO(content))


def restore(path: Path, data: Path) -> About:
    """Makes a data directory of a backup. Raises ArchiveError; then there is no directory that was not there."""
    if data.exists() and any(data.iterdir()):
        raise ArchiveError(f"{data} is not empty; restore into a new directory")
    data.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{data.name}.", dir=data.parent))
    try:
        about = _read(path, made)
        _check(made / STORE)
        # An empty directory gives way.
        made.rename(data)
    except (OSError, tarfile.TarError, EOFError) as error:
        raise ArchiveError(f"{path}: {error}") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return about


def _read(path: Path, made: Path) -> About:
    with tarfile.open(path, mode="r:gz") as archive:
        members = {member.name: member for member in archive.getmembers()}
        first = members.get(_ABOUT)
        file = archive.extractfile(first) if first is not None else None
        if file is None:
            raise ArchiveError(f"{path} is not a backup of dray")
        try:
            about = msgspec.json.decode(file.read(), type=About)
        except msgspec.DecodeError as error:
            raise ArchiveError(f"{path} is not a backup of dray: {error}") from None
        if about.format != FORMAT:
            raise ArchiveError(f"{path} has format {about.format}, this program reads {FORMAT}; use dray {about.dray}")
        for name, member in members.items():
            if member.isfile() and _belongs(name):
                content = archive.extractfile(member)
                assert content is not None
                _place(made / name, content)
    return about


def _belongs(name: str) -> bool:
    parts = PurePosixPath(name).parts
    inside = ".." not in parts and not name.startswith("/")
    return inside and (name == STORE or name in _FILES or parts[0] == _PKI)


def _place(path: Path, content: IO[bytes]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        shutil.copyfileobj(content, file)
        file.flush()
        os.fsync(file.fileno())


def _check(store: Path) -> None:
    """Raises ArchiveError for a store that is missing or damaged."""
    if not store.exists():
        raise ArchiveError("the backup has no store")
    try:
        # Reading it needs no files beside it.
        connection = sqlite3.connect(f"file:{store}?mode=ro&immutable=1", uri=True)
        try:
            (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            connection.close()
    except sqlite3.Error as error:
        said = str(error)
    if said != "ok":
        raise ArchiveError(f"the store in the backup is damaged: {said}")
