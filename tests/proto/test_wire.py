"""Messages by bytes: what a kubelet sends and expects, written out with the field numbers of its protocols."""

from typing import Any

import pytest
from google.protobuf.message import Message

from dray._proto import dra_health_v1_pb2, dra_v1_pb2, podresources_v1_pb2, registration_pb2


def text(number: int, value: str) -> bytes:
    return part(number, value.encode())


def part(number: int, value: bytes) -> bytes:
    """A field of wire type 2: a string, bytes or a message."""
    assert number < 16
    assert len(value) < 128
    return bytes([number << 3 | 2, len(value)]) + value


def number(field: int, value: int) -> bytes:
    assert 0 <= value < 128
    return bytes([field << 3, value])


CLAIM = text(1, "ns") + text(2, "uid-1") + text(3, "claim")
DEVICE = text(1, "gpu") + text(2, "pool") + text(3, "gpu-0") + text(4, "v.com/c=a") + text(4, "v.com/c=b")
HEALTH = part(1, text(1, "pool") + text(2, "gpu-0")) + number(2, 2) + number(3, 100) + number(4, 30) + text(5, "hot")


def dra_cases(proto: Any) -> list[tuple[Message, bytes]]:
    claim = proto.Claim(namespace="ns", uid="uid-1", name="claim")
    device = proto.Device(
        request_names=["gpu"], pool_name="pool", device_name="gpu-0", cdi_device_ids=["v.com/c=a", "v.com/c=b"]
    )
    prepared = proto.NodePrepareResourcesResponse()
    prepared.claims["uid-1"].devices.append(device)
    failed = proto.NodePrepareResourcesResponse()
    failed.claims["uid-1"].error = "no"
    unprepared = proto.NodeUnprepareResourcesResponse()
    unprepared.claims["uid-1"].SetInParent()
    kept = proto.NodeUnprepareResourcesResponse()
    kept.claims["uid-1"].error = "busy"
    return [
        (proto.NodePrepareResourcesRequest(claims=[claim]), part(1, CLAIM)),
        (proto.NodeUnprepareResourcesRequest(claims=[claim, claim]), part(1, CLAIM) * 2),
        (prepared, part(1, text(1, "uid-1") + part(2, part(1, DEVICE)))),
        (failed, part(1, text(1, "uid-1") + part(2, text(2, "no")))),
        # An empty entry is success and must not be left out.
        (unprepared, part(1, text(1, "uid-1") + part(2, b""))),
        (kept, part(1, text(1, "uid-1") + part(2, text(1, "busy")))),
    ]


def health_cases(proto: Any) -> list[tuple[Message, bytes]]:
    device = proto.DeviceHealth(
        device=proto.DeviceIdentifier(pool_name="pool", device_name="gpu-0"),
        health=proto.UNHEALTHY,
        last_updated_time=100,
        health_check_timeout_seconds=30,
        message="hot",
    )
    return [
        (proto.NodeWatchResourcesRequest(), b""),
        (proto.NodeWatchResourcesResponse(devices=[device]), part(1, HEALTH)),
        (proto.DeviceHealth(health=proto.HEALTHY), number(2, 1)),
        (proto.DeviceHealth(health=proto.UNKNOWN), b""),
    ]


def pod_resources_cases() -> list[tuple[Message, bytes]]:
    proto = podresources_v1_pb2
    topology = proto.TopologyInfo(nodes=[proto.NUMANode(ID=1)])
    claim = proto.ClaimResource(
        cdi_devices=[proto.CDIDevice(name="v.com/c=a")],
        driver_name="gpu.example.com",
        pool_name="node-1",
        device_name="gpu-0",
        share_id="share-1",
    )
    dynamic = proto.DynamicResource(claim_name="claim", claim_namespace="ns", claim_resources=[claim])
    container = proto.ContainerResources(name="main", cpu_ids=[2, 3], dynamic_resources=[dynamic])
    claim_bytes = part(1, text(1, "v.com/c=a")) + text(2, "gpu.example.com") + text(3, "node-1")
    claim_bytes += text(4, "gpu-0") + text(5, "share-1")
    dynamic_bytes = text(2, "claim") + text(3, "ns") + part(4, claim_bytes)
    return [
        (dynamic, dynamic_bytes),
        (container, text(1, "main") + part(3, bytes([2, 3])) + part(5, dynamic_bytes)),
        (proto.PodResources(name="p", namespace="ns", cpu_ids=[1]), text(1, "p") + text(2, "ns") + part(4, b"\x01")),
        (
            proto.ContainerDevices(resource_name="r", device_ids=["d"], topology=topology),
            text(1, "r") + text(2, "d") + part(3, part(1, number(1, 1))),
        ),
        (
            proto.ContainerMemory(memory_type="memory", size=5, topology=topology),
            text(1, "memory") + number(2, 5) + part(3, part(1, number(1, 1))),
        ),
        (proto.GetPodResourcesRequest(pod_name="p", pod_namespace="ns"), text(1, "p") + text(2, "ns")),
        (
            proto.GetPodResourcesResponse(pod_resources=proto.PodResources(name="p")),
            part(1, text(1, "p")),
        ),
        (
            proto.AllocatableResourcesResponse(
                devices=[proto.ContainerDevices(resource_name="r")],
                cpu_ids=[7],
                memory=[proto.ContainerMemory(size=1)],
            ),
            part(1, text(1, "r")) + part(2, b"\x07") + part(3, number(2, 1)),
        ),
        (
            proto.ListPodResourcesResponse(pod_resources=[proto.PodResources(name="p", namespace="ns")]),
            part(1, text(1, "p") + text(2, "ns")),
        ),
    ]


REGISTRATION_CASES: list[tuple[Message, bytes]] = [
    (
        registration_pb2.PluginInfo(
            type="DRAPlugin", name="d.com", endpoint="/p/dra.sock", supported_versions=["v1.DRAPlugin", "v1beta1.D"]
        ),
        text(1, "DRAPlugin")
        + text(2, "d.com")
        + text(3, "/p/dra.sock")
        + text(4, "v1.DRAPlugin")
        + text(4, "v1beta1.D"),
    ),
    (registration_pb2.RegistrationStatus(plugin_registered=True), number(1, 1)),
    (registration_pb2.RegistrationStatus(error="no"), text(2, "no")),
    (registration_pb2.RegistrationStatusResponse(), b""),
]

CASES = REGISTRATION_CASES + dra_cases(dra_v1_pb2) + health_cases(dra_health_v1_pb2) + pod_resources_cases()


@pytest.mark.parametrize(("message", "encoded"), CASES)
def test_messages_are_encoded_and_decoded_by_their_field_numbers(message: Message, encoded: bytes) -> None:
    assert message.SerializeToString(deterministic=True) == encoded
    assert type(message).FromString(encoded) == message


def test_a_share_id_may_be_absent() -> None:
    encoded = text(2, "pool") + text(3, "gpu-0") + text(5, "share-1")
    told = dra_v1_pb2.Device.FromString(encoded)
    assert told.HasField("share_id")
    assert told.share_id == "share-1"
    assert not dra_v1_pb2.Device(pool_name="pool").HasField("share_id")
