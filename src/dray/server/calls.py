"""A call: a request for a resource, with everything that its path, query and headers say."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dray.api.intake import Place
from dray.server import negotiation
from dray.server.authorization import Access
from dray.server.context import Context
from dray.server.negotiation import Form
from dray.server.paths import ResourcePath
from dray.server.requests import Request
from dray.server.resources import Resource


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
    def form(self) -> Form:
        return negotiation.form(self.request.headers.get("accept", ""))

    def authorize_create(self) -> None:
        """For a request that asks for another verb and would make an object: that needs the right to create too."""
        path = self.path
        access = Access("create", path.group, path.plural, path.subresource, path.namespace, path.name)
        self.context.security.authorize(self.request.user, access)

    @property
    def include(self) -> str:
        return self.query.get("includeObject", "")
