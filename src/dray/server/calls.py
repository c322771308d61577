"""Calls: requests for a resource with what their path, query and headers say, and the writes they ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dray.api.intake import Place
from dray.api.objects import Object
from dray.server import negotiation, reads
from dray.server.admission.attributes import Attributes
from dray.server.authorization import Access, User
from dray.server.context import Context
from dray.server.negotiation import Accepted, Form
from dray.server.parameters import WriteOptions
from dray.server.part_kinds import PartKind
from dray.server.paths import ResourcePath
from dray.server.requests import Request
from dray.server.resources import Resource


class Write(msgspec.Struct, frozen=True):
    """A requested write; `size` is the number of bytes that the client sent, to estimate the work."""

    context: Context
    resource: Resource
    place: Place
    options: WriteOptions
    user: User
    warnings: list[str]
    subresource: str = ""
    verb: str = "update"
    size: int = 0
    # Duplicate fields of the body.
    repeated: Sequence[str] = ()
    annotations: dict[str, str] = msgspec.field(default_factory=dict)

    def attributes(
        self, operation: str, obj: Object, old: Object | None = None, part: PartKind | None = None
    ) -> Attributes:
        """Returns the write as admission sees it; for a `part` the objects are of its kind."""
        told = (self.subresource, self.verb, self.warnings, self.annotations, self.options.dry_run)
        place = self.place if part is not None else None
        return Attributes(operation, self.context, self.resource, self.user, obj, old, *told, part, place)


class Call(msgspec.Struct, frozen=True):
    context: Context
    request: Request
    resource: Resource
    path: ResourcePath
    query: Mapping[str, str]

    @property
    def place(self) -> Place:
        return Place(self.path.namespace, self.path.name)

    @property
    def accepted(self) -> Accepted:
        """Returns the form in which the client accepts the answer; raises a 406."""
        accept = self.request.headers.get("accept", "")
        # Kinds with known types have protobuf messages.
        return negotiation.accepted(accept) if self.resource.strategic else negotiation.accepted_of_custom(accept)

    @property
    def form(self) -> Form:
        return self.accepted.form

    def authorize_create(self) -> None:
        """Authorizes a request with another verb, such as patch, to create a missing object."""
        path = self.path
        access = Access("create", path.group, path.plural, path.subresource, path.namespace, path.name)
        self.context.security.authorize(self.request.user, access)

    def write(self, options: WriteOptions, verb: str = "update", subresource: str | None = None) -> Write:
        part = self.path.subresource if subresource is None else subresource
        request, size = self.request, len(self.request.body)
        told = (request.user, request.warnings, part, verb, size, request.repeated, request.annotations)
        return Write(self.context, self.resource, self.place, options, *told)

    async def stored(self) -> Object:
        """Returns the object that the path names, in hub form; raises a 404."""
        return self.resource.read(await reads.seen(self.context, self.resource, self.place))

    @property
    def include(self) -> str:
        return self.query.get("includeObject", "")
