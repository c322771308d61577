"""Attributes of a write, as admission plug-ins see them."""

from __future__ import annotations

import msgspec

from dray.api.intake import Place
from dray.api.objects import Object
from dray.server import status
from dray.server.authorization import User
from dray.server.context import Context
from dray.server.part_kinds import PartKind
from dray.server.resources import Resource


class Attributes(msgspec.Struct):
    """A write; `obj` is in hub form and may be changed, `old` is the stored object, None on create.

    For a subresource with a kind of its own (`part`) both are of that kind, and `place` names the object.
    """

    operation: str
    context: Context
    resource: Resource
    user: User
    obj: Object
    old: Object | None = None
    subresource: str = ""
    verb: str = "update"
    # Warnings for the client.
    warnings: list[str] = msgspec.field(default_factory=list)
    # Annotations for the audit log.
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    dry_run: bool = False
    part: PartKind | None = None
    place: Place | None = None

    @property
    def namespace(self) -> str:
        if self.place is not None:
            return self.place.namespace
        return str(self.obj["metadata"].get("namespace", ""))

    @property
    def name(self) -> str:
        if self.place is not None:
            return self.place.name
        metadata = self.obj["metadata"]
        return str(metadata.get("name") or metadata.get("generateName", ""))

    def forbid(self, why: str) -> status.ApiError:
        return status.forbidden(self.resource.group, self.resource.plural, self.name, why)
