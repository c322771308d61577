"""The contract of a client: the verbs of the Kubernetes API on objects as they are, dicts decoded from JSON.

Nothing is typed, defaulted or dropped on the way. A refusal of the server is an `ApiError`; no answer is one of the
other `ClientError`s, after the retries that are safe. Objects name their own place by `metadata`; where there is no
object, `namespace` and `name` do, and an empty namespace is that of the whole cluster.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

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


class Client(Protocol):
    async def get(self, resource: Resource, name: str, *, namespace: str = "", subresource: str = "") -> Object: ...

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Object:
        """One page, as the server gives it."""
        ...

    async def list_all(
        self, resource: Resource, *, namespace: str = "", selection: Selection = EVERYTHING, limit: int = 500
    ) -> Object:
        """All pages in one list; `limit` is the size of a page."""
        ...

    def watch(
        self, resource: Resource, *, namespace: str = "", selection: Selection = EVERYTHING, resource_version: str = ""
    ) -> AsyncGenerator[WatchEvent, None]:
        """Events after a resource version, bookmarks among them, without end.

        Broken and timed-out connections are taken up again where they ended. Raises ApiError when that cannot be:
        `is_gone` and `is_ahead` mean to list again. Without a resource version it starts with what is there.
        """
        ...

    async def create(
        self,
        resource: Resource,
        body: Object,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Object:
        """`name` and `subresource` are for what is created under another object: a binding, an eviction, a token."""
        ...

    async def update(
        self, resource: Resource, body: Object, *, subresource: str = "", options: WriteOptions = WRITE
    ) -> Object: ...

    async def update_status(self, resource: Resource, body: Object, *, options: WriteOptions = WRITE) -> Object: ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Any,
        *,
        namespace: str = "",
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Object: ...

    async def apply(self, resource: Resource, body: Object, *, subresource: str = "", options: WriteOptions) -> Object:
        """Server-side apply; the options must name a field manager."""
        ...

    async def delete(
        self, resource: Resource, name: str, *, namespace: str = "", options: DeleteOptions = DELETE
    ) -> Object:
        """The object if it is still being deleted, or a Status."""
        ...

    async def delete_collection(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        options: DeleteOptions = DELETE,
    ) -> Object: ...

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        accept: str = JSON,
    ) -> Object:
        """Anything else that speaks JSON: discovery, version, reviews. `accept` asks for one of its forms."""
        ...

    def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncGenerator[bytes, None]:
        """Anything that comes in pieces: logs."""
        ...

    async def close(self) -> None: ...
