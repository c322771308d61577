"""Kinds whose objects are answered and not stored: `componentstatuses` and `bindings`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dray.server import component_statuses
from dray.server.calls import Call
from dray.server.requests import Answer
from dray.server.resources import Resource
from dray.server.subresources import binding

Handler = Callable[[Call], Awaitable[Answer]]
_HANDLERS: dict[tuple[str, str, str], Handler] = {
    ("", "componentstatuses", "get"): component_statuses.get,
    ("", "componentstatuses", "list"): component_statuses.list_all,
    ("", "bindings", "create"): binding.create_named,
}


def find(resource: Resource, verb: str, stored: Handler) -> tuple[str, Handler]:
    return verb, _HANDLERS.get((resource.group, resource.plural, verb), stored)
