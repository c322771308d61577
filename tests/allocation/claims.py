"""The node `n`, device classes and claims, in the short form of the allocator's tests."""

from __future__ import annotations

from typing import Any

from dray.api.objects import Object
from dray.testing import objects
from dray.testing.objects import DRIVER, device_class


def node(name: str = "n", **labels: str) -> Object:
    return objects.node(name, labels=labels)


def classes() -> list[Object]:
    return [
        device_class("gpu", f'device.driver == "{DRIVER}"'),
        device_class("nic", 'device.driver == "nic.example.com"'),
        device_class("any"),
    ]


def exactly(count: int = 1, *selectors: str, of: str = "gpu", **members: Any) -> Object:
    """One way to serve a request."""
    wanted = objects.request(deviceClassName=of, count=count, selectors=selectors, **members)
    return wanted["exactly"]


def everything(*selectors: str, of: str = "gpu", **members: Any) -> Object:
    return exactly(1, *selectors, of=of, allocationMode="All", **members)


def request(name: str, *ways: Object) -> Object:
    """One way is exact; several are alternatives, named `a`, `b` and so on."""
    if len(ways) == 1:
        return {"name": name, "exactly": ways[0]}
    return objects.first_available(name, *({"name": chr(97 + at), **way} for at, way in enumerate(ways)))


def claim(name: str, *requests: Object, constraints: list[Object] | None = None, **members: Any) -> Object:
    made = objects.claim(name, *requests, constraints=constraints, namespace="default", uid=f"uid-{name}", **members)
    made["spec"]["devices"]["requests"] = list(requests)
    return made


def holding(name: str, *devices: str, pool: str = "n", driver: str = DRIVER, **members: Any) -> Object:
    allocation = objects.allocation(*devices, pool=pool, driver=driver, request="r", **members)
    return claim(name, request("r", exactly()), status={"allocation": allocation})
