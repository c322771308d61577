"""What a driver says about devices: status in the claim, and metadata files for containers."""

import json
from typing import Any

import pytest

from dray.driver import (
    Claim,
    DeviceMetadata,
    DeviceStatus,
    NetworkData,
    Prepared,
    PreparedDevice,
    Version,
)
from tests.driver.node import NAME, Lamps, Node

NETWORK = NetworkData("net1", ["10.0.0.1/24"], "aa:bb:cc:dd:ee:ff")
READY = {"type": "Ready", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


class Telling(Lamps):
    serial = "s-1"

    async def prepare(self, claim: Claim) -> Prepared:
        return Prepared(
            [
                PreparedDevice(
                    each,
                    status=DeviceStatus([READY], {"mtu": 1500}, NETWORK),
                    metadata=DeviceMetadata({"serial": self.serial, "rev": Version("1.0.0")}, NETWORK),
                )
                for each in claim.devices
            ]
        )


async def test_the_status_of_devices_is_in_the_claim(kubelet_node: Node) -> None:
    share = "c1f8b3a0-0000-4000-8000-000000000001"
    async with kubelet_node.plugin(Telling()) as plugin:
        claim = await kubelet_node.claim("lamp-0", {"device": "lamp-1", "shareID": share})
        for _ in range(2):
            assert (await plugin.prepare(claim))[claim["uid"]].error == ""
    stored = await kubelet_node.cluster.get("ResourceClaim", claim["name"])
    assert stored is not None
    network = {"interfaceName": "net1", "ips": ["10.0.0.1/24"], "hardwareAddress": "aa:bb:cc:dd:ee:ff"}
    common = {"driver": NAME, "pool": "node-1", "conditions": [READY], "data": {"mtu": 1500}, "networkData": network}
    assert stored["status"]["devices"] == [
        {**common, "device": "lamp-0"},
        {**common, "device": "lamp-1", "shareID": share},
    ]
    managers = {each["manager"] for each in stored["metadata"]["managedFields"]}
    assert f"{NAME}/node-1" in managers


async def test_a_status_that_cannot_be_written_does_not_fail_the_claim(kubelet_node: Node, caplog: Any) -> None:
    class Talkative(Lamps):
        async def prepare(self, claim: Claim) -> Prepared:
            status = DeviceStatus(data={"text": "x" * 20_000})
            return Prepared([PreparedDevice(each, status=status) for each in claim.devices])

    async with kubelet_node.plugin(Talkative()) as plugin:
        claim = await kubelet_node.claim("lamp-0")
        assert (await plugin.prepare(claim))[claim["uid"]].error == ""
    assert "the status of devices of claim" in caplog.text


def documents(node: Node, claim: dict[str, str], request: str = "lamp") -> list[dict[str, Any]]:
    path = node.root / "plugins" / NAME / "dra-device-metadata" / f"default_{claim['name']}" / request / "metadata.json"
    assert path.stat().st_mode & 0o777 == 0o644
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(("annotation", "pod_claim"), [("", ""), ("my-lamp", "my-lamp"), ("../../../../etc", "")])
async def test_metadata_is_mounted_into_containers(kubelet_node: Node, annotation: str, pod_claim: str) -> None:
    annotations = {"resource.kubernetes.io/pod-claim-name": annotation} if annotation else None
    versions = ("v1alpha1", "v1beta1")
    async with kubelet_node.plugin(Telling(), metadata_versions=versions) as plugin:
        claim = await kubelet_node.claim("lamp-0", "lamp-1", annotations=annotations)
        uid = claim["uid"]
        devices = (await plugin.prepare(claim))[uid].devices
        assert [list(each.cdi_device_ids) for each in devices] == [[f"{NAME}/metadata={uid}_lamp"], []]
        (name,) = kubelet_node.specs()
        assert name == f"{NAME}_metadata_{uid}_lamp.json"
        place = f"resourceclaimtemplates/{pod_claim}" if pod_claim else f"resourceclaims/{claim['name']}"
        host = f"{kubelet_node.root}/plugins/{NAME}/dra-device-metadata/default_{claim['name']}/lamp/metadata.json"
        (device,) = json.loads((kubelet_node.cdi / name).read_text())["devices"]
        assert device["containerEdits"]["mounts"] == [
            {
                "hostPath": host,
                "containerPath": f"/var/run/kubernetes.io/dra-device-attributes/{place}/lamp/{NAME}-metadata.json",
                "options": ["ro", "bind"],
            }
        ]
        newest, older = documents(kubelet_node, claim)
        assert newest["apiVersion"] == "metadata.resource.k8s.io/v1beta1"
        assert {**older, "apiVersion": newest["apiVersion"]} == newest
        assert newest["kind"] == "DeviceMetadata"
        assert newest["metadata"] == {"name": claim["name"], "namespace": "default", "uid": uid, "generation": 1}
        assert newest.get("podClaimName", "") == pod_claim
        (request,) = newest["requests"]
        assert request["name"] == "lamp"
        assert request["devices"][0] == {
            "driver": NAME,
            "pool": "node-1",
            "name": "lamp-0",
            "attributes": {"serial": {"string": "s-1"}, "rev": {"version": "1.0.0"}},
            "networkData": NETWORK.document(),
        }
        await plugin.unprepare(claim)
        assert kubelet_node.specs() == []
        assert list((kubelet_node.root / "plugins" / NAME / "dra-device-metadata").iterdir()) == []


async def test_the_generation_of_metadata_counts_its_changes(kubelet_node: Node) -> None:
    driver = Telling()
    async with kubelet_node.plugin(driver, metadata_versions=("v1beta1",)) as plugin:
        claim = await kubelet_node.claim("lamp-0")
        for serial, generation in (("s-1", 1), ("s-1", 1), ("s-2", 2)):
            driver.serial = serial
            await plugin.prepare(claim)
            assert documents(kubelet_node, claim)[0]["metadata"]["generation"] == generation
