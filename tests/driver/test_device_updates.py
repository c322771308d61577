"""Status and metadata that a driver changes after it has prepared a claim."""

import json
from typing import Any

import pytest

from dray.driver import Claim, ClaimFailed, DeviceMetadata, DeviceStatus, DriverError, Prepared, PreparedDevice
from tests.driver.node import NAME, Lamps, Node


class Telling(Lamps):
    async def prepare(self, claim: Claim) -> Prepared:
        self.prepared.append(claim)
        metadata, status = DeviceMetadata({"serial": "s-1"}), DeviceStatus(data={"mtu": 1500})
        return Prepared([PreparedDevice(each, status=status, metadata=metadata) for each in claim.devices])


def documents(node: Node, claim: dict[str, str]) -> list[dict[str, Any]]:
    directory = node.root / "plugins" / NAME / "dra-device-metadata" / f"default_{claim['name']}"
    return [json.loads(line) for line in (directory / "lamp" / "metadata.json").read_text().splitlines()]


async def test_a_driver_changes_metadata_and_status_of_a_prepared_claim(kubelet_node: Node) -> None:
    driver = Telling()
    async with kubelet_node.plugin(driver, metadata_versions=("v1beta1",)) as plugin:
        claim = await kubelet_node.claim("lamp-0", "lamp-1")
        await plugin.prepare(claim)
        (prepared,) = driver.prepared
        driver.context.update_metadata(prepared.reference, {prepared.devices[1]: DeviceMetadata({"serial": "new"})})
        (document,) = documents(kubelet_node, claim)
        assert document["metadata"]["generation"] == 2
        first, second = document["requests"][0]["devices"]
        assert first["attributes"]["serial"] == {"string": "s-1"}
        assert second == {
            "driver": NAME,
            "pool": "node-1",
            "name": "lamp-1",
            "attributes": {"serial": {"string": "new"}},
        }
        status = DeviceStatus(data={"mtu": 9000})
        await driver.context.apply_device_status(prepared.reference, {prepared.devices[0]: status})
        stored = await kubelet_node.cluster.get("ResourceClaim", claim["name"])
        assert stored is not None
        assert [(each["device"], each["data"]) for each in stored["status"]["devices"]] == [("lamp-0", {"mtu": 9000})]
        await plugin.unprepare(claim)
        with pytest.raises(ClaimFailed, match="has no metadata for request lamp"):
            driver.context.update_metadata(prepared.reference, {prepared.devices[1]: DeviceMetadata()})


async def test_metadata_that_is_off_cannot_be_changed(kubelet_node: Node) -> None:
    driver = Telling()
    async with kubelet_node.plugin(driver) as plugin:
        claim = await kubelet_node.claim("lamp-0")
        await plugin.prepare(claim)
        with pytest.raises(DriverError, match="give the runner `metadata_versions`"):
            driver.context.update_metadata(driver.prepared[0].reference, {})
