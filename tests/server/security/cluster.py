"""A small cluster in a dictionary, and a clock that stands still until it is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from dray.api.objects import Object
from dray.server.authorization import AUTHENTICATED, User
from dray.server.security.users import NODES


@dataclass
class Clock:
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **delta: float) -> None:
        self.now += timedelta(**delta)


class Cluster:
    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str, str], Object] = {}

    def put(self, group: str, resource: str, obj: Object) -> Object:
        metadata = obj["metadata"]
        metadata.setdefault("uid", f"uid-of-{resource}-{metadata['name']}")
        self.objects[(group, resource, metadata.get("namespace", ""), metadata["name"])] = obj
        return obj

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        return self.objects.get((group, resource, namespace, name))

    def pods_on(self, node: str) -> Iterable[Object]:
        pods = (obj for (group, resource, _, _), obj in self.objects.items() if (group, resource) == ("", "pods"))
        return [pod for pod in pods if pod["spec"].get("nodeName") == node]


def pod(name: str, node: str = "", namespace: str = "default", **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"nodeName": node, **spec}, "status": {}}


def node_user(name: str) -> User:
    return User(f"system:node:{name}", (NODES, AUTHENTICATED))


def user(name: str, *groups: str) -> User:
    return User(name, (*groups, AUTHENTICATED))
