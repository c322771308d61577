"""The user's own kubeconfig: a cluster's entries are put into it, and taken out again when the cluster ends.

Everything else in the file stays: other entries, unknown members, their order. Comments do not, since the file is
written anew. That is done as kubectl does it: under a lock file beside it, whole or not at all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from typing import Final

import yaml

from dray.api.objects import Object, mapping, mappings
from dray.server.security.kubeconfig import KubeconfigError
from dray.server.security.private_files import write_private
from dray.yaml.writing import as_yaml

_SECTIONS: Final = ("clusters", "contexts", "users")
_CURRENT: Final = "current-context"
_NOTE: Final = "dray"
_PATIENCE: Final = 5.0


def own_path(environ: Mapping[str, str] = os.environ) -> Path:
    """The first file of $KUBECONFIG, or ~/.kube/config; a link leads to the file itself."""
    named = [each for each in environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    path = Path(named[0]) if named else Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    return Path(os.path.realpath(path))


@contextmanager
def merged(path: Path, document: Object) -> Iterator[None]:
    """While the block lasts, the file has the document's entries, and its context is the current one."""
    document, existed = deepcopy(document), path.exists()
    before = _change(path, lambda found: _put(found, document))
    try:
        yield
    finally:
        # It is no reason to fail at the end that somebody removed or broke the file.
        with suppress(KubeconfigError, OSError):
            _change(path, lambda found: _take_out(found, document, before))
            if not existed and not any(_read(path).get(section) for section in _SECTIONS):
                path.unlink()


def _put(found: Object, document: Object) -> str:
    before = str(found.get(_CURRENT) or "")
    if before == document[_CURRENT]:
        # A cluster of this name was killed before it could put things right.
        before = _noted(found, before)
    note = {"name": _NOTE, "extension": {"previous": before}}
    for context in document["contexts"]:
        context["context"]["extensions"] = [note]
    for section in _SECTIONS:
        entries = {entry["name"]: entry for entry in document[section]}
        kept = [entry for entry in mappings(found.get(section)) if entry.get("name") not in entries]
        found[section] = [*kept, *entries.values()]
    found[_CURRENT] = document[_CURRENT]
    return before


def _noted(found: Object, name: str) -> str:
    """Returns the context that was current before the context `name` was added; "" if unknown."""
    for context in mappings(found.get("contexts")):
        for note in mappings(mapping(context.get("context")).get("extensions")):
            if (context.get("name"), note.get("name")) == (name, _NOTE):
                return str(mapping(note.get("extension")).get("previous") or "")
    return ""


def _take_out(found: Object, document: Object, before: str) -> str:
    """Entries of the same name that are not these any more belong to somebody else."""
    for section in _SECTIONS:
        found[section] = [entry for entry in mappings(found.get(section)) if entry not in document[section]]
    if found.get(_CURRENT) == document[_CURRENT] and document[_CURRENT] not in _names(found, "contexts"):
        found[_CURRENT] = before if before in _names(found, "contexts") else ""
    return ""


def _names(found: Object, section: str) -> list[str]:
    return [str(entry.get("name")) for entry in mappings(found.get(section))]


def _change(path: Path, change: Callable[[Object], str]) -> str:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(path):
        found = _read(path)
        outcome = change(found)
        write_private(path, as_yaml([found]).encode())
    return outcome


def _read(path: Path) -> Object:
    try:
        found = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        found = None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise KubeconfigError(f"the kubeconfig {path} cannot be read, and is left as it is: {error}") from error
    if found is None:
        return {"apiVersion": "v1", "kind": "Config"}
    if not isinstance(found, dict) or not all(isinstance(found.get(section) or [], list) for section in _SECTIONS):
        raise KubeconfigError(f"{path} is not a kubeconfig, and is left as it is")
    return found


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Locks the kubeconfig with the same lock file as kubectl. Raises KubeconfigError after a timeout."""
    lock = path.with_name(path.name + ".lock")
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            break
        except FileExistsError:
            if time.monotonic() > end:
                raise KubeconfigError(f"{lock} is held by another process; delete it if there is none") from None
            time.sleep(0.05)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
