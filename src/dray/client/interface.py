"""Arguments and results of client calls: resources and their paths, selections, options, watch events."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple, Protocol
from urllib.parse import quote

import msgspec

from dray.api.caches import remember
from dray.api.objects import Object

JSON: Final = "application/json"
# A match is ten times as fast as `quote` for names that need no quoting.
_PLAIN = re.compile(r"[A-Za-z0-9_.:~-]+")


class Resource(Protocol):
    """The parts of a path; a `KindVersion` of the catalogue has them."""

    @property
    def group(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def plural(self) -> str: ...


class GroupVersionResource(NamedTuple):
    """A resource that is not in the catalogue."""

    group: str
    version: str
    plural: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Label and field selectors of a list or watch, as in kubectl's -l and --field-selector."""

    labels: str = ""
    fields: str = ""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    field_manager: str = ""
    field_validation: str = ""
    dry_run: bool = False
    # For apply: take over fields that other managers own.
    force: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a deletion; `uid` and `resource_version` are preconditions."""

    uid: str = ""
    resource_version: str = ""
    grace_period: int | None = None
    propagation: str = ""
    dry_run: bool = False


class PatchType(Enum):
    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class WatchEvent(msgspec.Struct, frozen=True):
    """A watch event; `type` is ADDED, MODIFIED, DELETED or BOOKMARK.

    A bookmark's object has only a resource version.
    """

    type: str
    object: Object

    @property
    def resource_version(self) -> str:
        return str((self.object.get("metadata") or {}).get("resourceVersion") or "")


EVERYTHING = Selection()
WRITE = WriteOptions()
DELETE = DeleteOptions()


def collection(resource: Resource, namespace: str = "") -> str:
    root = _root(resource.group, resource.version)
    if namespace:
        return f"{root}/namespaces/{_segment(namespace)}/{_segment(resource.plural)}"
    return f"{root}/{_segment(resource.plural)}"


def item(resource: Resource, namespace: str, name: str, subresource: str = "") -> str:
    path = f"{collection(resource, namespace)}/{_segment(name)}"
    return f"{path}/{_segment(subresource)}" if subresource else path


@lru_cache(maxsize=512)
def _root(group: str, version: str) -> str:
    return f"/apis/{_segment(group)}/{_segment(version)}" if group else f"/api/{_segment(version)}"


@remember(4096)
def _segment(text: str) -> str:
    """Quotes a name for a path; refuses empty names and dots, which would name another path."""
    if not text or text in (".", "..") or "/" in text or "%" in text:
        raise ValueError(f"{text!r} cannot be a part of a path")
    return text if _PLAIN.fullmatch(text) else quote(text, safe=":")
