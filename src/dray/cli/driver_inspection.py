"""What a driver would publish, as a table or as ResourceSlices."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dray.api.objects import Object
from dray.cli.layout import Layout
from dray.yaml.writing import as_json, as_yaml

if TYPE_CHECKING:
    from dray.driver import Driver, Pool

OUTPUTS: Final = ("table", "json", "yaml")
_COLUMNS: Final = ("device", "pool", "shared", "capacity", "attributes")


def inspected(driver: Driver, node: str, output: str) -> str:
    """The driver is asked, and neither started nor published."""
    slices = asyncio.run(_slices(driver, node))
    if output == "table":
        return "".join(f"{line}\n" for line in _table(slices))
    return as_json(slices) if output == "json" else as_yaml(slices)


async def _slices(driver: Driver, node: str) -> list[Object]:
    from dray.client.api import ApiClient
    from dray.client.endpoint import Endpoint
    from dray.client.http import HttpTransport
    from dray.driver import DriverContext

    with tempfile.TemporaryDirectory() as directory:
        # A client that reaches nothing: there is no cluster to ask.
        async with ApiClient(HttpTransport(Endpoint("http://127.0.0.1:9"))) as client:
            driver.context = DriverContext(node, Path(directory), client, lambda: None)
            pools = await driver.pools()
    return [each for pool in pools for each in _slices_of(pool, driver.name, node)]


def _slices_of(pool: Pool, driver: str, node: str) -> list[Object]:
    from dray.driver.devices import NodeSelection
    from dray.driver.slices.layout import check, contents

    check(pool)
    parts = contents(pool, {})
    nodes = {"perDeviceNodeSelection": True}
    if not pool.per_device_node_selection:
        nodes = (pool.nodes or NodeSelection(node_name=node)).document()
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"generateName": f"{index:05x}-{driver}-{node}-"},
            "spec": {
                "driver": driver,
                **nodes,
                "pool": {"name": pool.name, "generation": 1, "resourceSliceCount": len(parts)},
                **part,
            },
        }
        for index, part in enumerate(parts)
    ]


def _table(slices: list[Object]) -> list[str]:
    rows = [
        {"cells": _cells(device, each["spec"]["pool"]["name"])}
        for each in slices
        for device in each["spec"].get("devices", ())
    ]
    if not rows:
        return ["No devices."]
    return Layout().lines([{"columnDefinitions": [{"name": name} for name in _COLUMNS], "rows": rows}])


def _cells(device: Object, pool: str) -> list[str]:
    capacity = {name: each["value"] for name, each in device.get("capacity", {}).items()}
    attributes = {name: _plain(each) for name, each in device.get("attributes", {}).items()}
    shared = "yes" if device.get("allowMultipleAllocations") else "no"
    return [device["name"], pool, shared, _pairs(capacity), _pairs(attributes)]


def _plain(attribute: Object) -> str:
    value = next(iter(attribute.values()))
    if isinstance(value, list):
        return "|".join(map(_scalar, value))
    return _scalar(value)


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pairs(values: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(values.items()))
