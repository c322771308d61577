"""Arguments and results of client calls: resources, selections, options, watch events."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

import msgspec

from dray.api.objects import Object, metadata_of

JSON: Final = "application/json"


class Resource(Protocol):
    """What a path is made of; a `KindVersion` of the catalogue is one."""

    @property
    def group(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def plural(self) -> str: ...


@dataclass(frozen=True, slots=True)
class GroupVersionResource:
    """A resource the catalogue does not know."""

    group: str
    version: str
    plural: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a list or watch: selectors as kubectl takes them with -l and --field-selector."""

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
    """`uid` and `resource_version` are preconditions."""

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
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK; a bookmark's object has nothing but a resource version."""

    type: str
    object: Object

    @property
    def resource_version(self) -> str:
        return str(metadata_of(self.object).get("resourceVersion") or "")


EVERYTHING = Selection()
WRITE = WriteOptions()
DELETE = DeleteOptions()
