"""Subresources that are more than a part of the object."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from dray.server import verbs
from dray.server.calls import Call
from dray.server.requests import Answer
from dray.server.resources import Resource
from dray.server.subresources import binding, eviction, finalize, kubelet, pod_parts, proxy, scale, token

Handler = Callable[[Call], Awaitable[Answer]]
Choices = Mapping[str, tuple[str, Handler]]

_SPECIAL: dict[tuple[str, str, str], Choices] = {
    ("", "pods", "binding"): {"POST": ("create", binding.create)},
    ("", "pods", "eviction"): {"POST": ("create", eviction.create)},
    ("", "pods", "log"): {"GET": ("get", kubelet.log)},
    ("", "namespaces", "finalize"): {"PUT": ("update", finalize.update)},
    ("", "serviceaccounts", "token"): {"POST": ("create", token.create)},
}


_PROXIES: Mapping[str, Handler] = {"nodes": kubelet.proxy, "pods": proxy.pod, "services": proxy.service}
_SPECIAL |= {
    ("", plural, "proxy"): {
        method: (verb, handler)
        for method, verb in (
            ("GET", "get"),
            ("POST", "create"),
            ("PUT", "update"),
            ("PATCH", "patch"),
            ("DELETE", "delete"),
        )
    }
    for plural, handler in _PROXIES.items()
}
_POD_PART: Choices = {
    "GET": ("get", verbs.get),
    "PUT": ("update", pod_parts.update),
    "PATCH": ("patch", pod_parts.patch),
}
_SPECIAL |= {("", "pods", part): _POD_PART for part in ("ephemeralcontainers", "resize")}
_CONNECTIONS: Mapping[str, Handler] = {
    "attach": kubelet.attach,
    "exec": kubelet.execute,
    "portforward": kubelet.port_forward,
}
_SPECIAL |= {
    ("", "pods", part): {"GET": ("get", handler), "POST": ("create", handler)} for part, handler in _CONNECTIONS.items()
}
_SCALE: Choices = {
    "GET": ("get", scale.get),
    "PUT": ("update", scale.update),
    "PATCH": ("patch", scale.patch),
}


def find(resource: Resource, subresource: str) -> Choices | None:
    """Returns how a subresource is answered, by method; None for a part of the object such as status."""
    if subresource == "scale":
        return _SCALE
    return _SPECIAL.get((resource.group, resource.plural, subresource))


def part_verbs(resource: Resource, subresource: str) -> list[str]:
    """Returns the verbs of a subresource for discovery."""
    special = find(resource, subresource)
    return ["get", "patch", "update"] if special is None else sorted({verb for verb, _ in special.values()})


def part_methods(resource: Resource, subresource: str) -> list[str]:
    special = find(resource, subresource)
    return ["GET", "PATCH", "PUT"] if special is None else sorted(special)
