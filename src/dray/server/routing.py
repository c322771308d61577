"""Routing of requests for resources: the verb, the right to it, and the function that answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dray.server import computed, parameters, removed_versions, resource_metrics, reviews, status, subresources, verbs
from dray.server.authorization import Access
from dray.server.calls import Call
from dray.server.context import Context
from dray.server.paths import ResourcePath
from dray.server.requests import Answer, Request

Handler = Callable[[Call], Awaitable[Answer]]

_ON_ONE: dict[str, tuple[str, Handler]] = {
    "GET": ("get", verbs.get),
    "PUT": ("update", verbs.update),
    "PATCH": ("patch", verbs.patch),
    "DELETE": ("delete", verbs.delete),
}
_ON_ALL: dict[str, tuple[str, Handler]] = {
    "GET": ("list", verbs.list_all),
    "POST": ("create", verbs.create),
    "DELETE": ("deletecollection", verbs.delete_collection),
}
_ON_PART: dict[str, tuple[str, Handler]] = {
    "GET": ("get", verbs.get),
    "PUT": ("update", verbs.update),
    "PATCH": ("patch", verbs.patch),
}


async def answer(context: Context, request: Request, path: ResourcePath) -> Answer:
    query = parameters.parse(request.query)
    resource = context.registry.find(path.group, path.version, path.plural)
    if resource is None and path.group == resource_metrics.GROUP:
        return await resource_metrics.answer(context, request, path, query)
    if resource is None:
        removed_versions.refuse(path)
        return await reviews.answer(context, request, path, query)
    if (path.namespace != "") != resource.namespaced and (path.namespace or path.name):
        raise status.no_such_path()
    call = Call(context, request, resource, path, query)
    verb, handler = _choose(call)
    authorize(call, verb)
    if resource.deprecation:
        request.warnings.append(resource.deprecation)
    return await handler(call)


def _choose(call: Call) -> tuple[str, Handler]:
    path, method = call.path, "GET" if call.request.method == "HEAD" else call.request.method
    if path.subresource:
        return _choose_part(call, method)
    choices = _ON_ONE if path.name else _ON_ALL
    if method not in choices or (method == "POST" and call.resource.namespaced and not path.namespace):
        raise status.method_not_allowed(method)
    chosen = ("watch", verbs.watch) if method == "GET" and parameters.boolean(call.query, "watch") else choices[method]
    if chosen[0] not in call.resource.verbs:
        raise status.method_not_allowed(method)
    return computed.find(call.resource, *chosen)


def _choose_part(call: Call, method: str) -> tuple[str, Handler]:
    subresource = call.path.subresource
    if subresource not in call.resource.subresources:
        raise status.no_such_path()
    special = subresources.find(call.resource, subresource)
    choices = special if special is not None else _ON_PART
    if method not in choices or (call.path.rest and subresource != "proxy"):
        raise status.method_not_allowed(method)
    return choices[method]


def authorize(call: Call, verb: str) -> None:
    path = call.path
    call.request.verb = verb
    access = Access(
        verb,
        path.group,
        path.plural,
        path.subresource,
        # A namespace belongs to itself: rights in the namespace include the object.
        path.name if (path.group, path.plural) == ("", "namespaces") else path.namespace,
        path.name,
        field_selector=call.query.get("fieldSelector", ""),
    )
    call.request.reason = call.context.security.authorize(call.request.user, access)
