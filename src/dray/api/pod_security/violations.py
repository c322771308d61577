"""Violations of the Pod Security Standards, with Kubernetes' words: users and tools compare them.

Also what several checks ask of a pod: its containers of all three kinds, and their security contexts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dray.api.objects import Object, mapping, mappings


@dataclass(frozen=True, slots=True)
class Violation:
    """`reason` names the rule; `detail` names the containers and values of this pod."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


CheckPod = Callable[[Mapping[str, str], Object], Violation | None]
"""Takes the annotations and the spec of a pod."""


def containers(spec: Object) -> Iterator[Object]:
    for member in ("initContainers", "containers", "ephemeralContainers"):
        yield from mappings(spec.get(member))


def context_of(holder: Object) -> Object:
    """The security context of a pod's spec or of a container."""
    return mapping(holder.get("securityContext"))


def names_of(found: Iterable[Object]) -> list[str]:
    return [str(container.get("name")) for container in found]


def quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def counted(singular: str, plural: str, items: Sequence[Any] | set[str]) -> str:
    return singular if len(items) == 1 else plural


def containers_called(names: Sequence[str]) -> str:
    return f"{counted('container', 'containers', names)} {quoted(names)}"


def setters(in_pod: bool, names: Sequence[str]) -> str:
    """Names the setters of a forbidden value: the pod, some of its containers, or both."""
    return " and ".join([*(["pod"] if in_pod else []), *([containers_called(names)] if names else [])])


def is_windows(spec: Object) -> bool:
    return mapping(spec.get("os")).get("name") == "windows"


def has_user_namespace(spec: Object) -> bool:
    return spec.get("hostUsers") is False
