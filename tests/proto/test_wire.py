"""Messages by bytes: what a kubelet sends and expects, written out with the field numbers of its protocols."""

import pytest
from google.protobuf.message import Message

from dray._proto import kubelet_pb2 as messages


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


def dra_cases() -> list[tuple[Message, bytes]]:
    claim = messages.Claim(namespace="ns", uid="uid-1", name="claim")
    device = messages.Device(
        request_names=["gpu"], pool_name="pool", device_name="gpu-0", cdi_device_ids=["v.com/c=a", "v.com/c=b"]
    )
    prepared = messages.NodePrepareResourcesResponse()
    prepared.claims["uid-1"].devices.append(device)
    failed = messages.NodePrepareResourcesResponse()
    failed.claims["uid-1"].error = "no"
    unprepared = messages.NodeUnprepareResourcesResponse()
    unprepared.claims["uid-1"].SetInParent()
    kept = messages.NodeUnprepareResourcesResponse()
    kept.claims["uid-1"].error = "busy"
    return [
        (messages.NodePrepareResourcesRequest(claims=[claim]), part(1, CLAIM)),
        (messages.NodeUnprepareResourcesRequest(claims=[claim, claim]), part(1, CLAIM) * 2),
        (prepared, part(1, text(1, "uid-1") + part(2, part(1, DEVICE)))),
        (failed, part(1, text(1, "uid-1") + part(2, text(2, "no")))),
        # An empty entry is success and must not be left out.
        (unprepared, part(1, text(1, "uid-1") + part(2, b""))),
        (kept, part(1, text(1, "uid-1") + part(2, text(1, "busy")))),
    ]


def health_cases() -> list[tuple[Message, bytes]]:
    device = messages.DeviceHealth(
        device=messages.DeviceIdentifier(pool_name="pool", device_name="gpu-0"),
        health=messages.UNHEALTHY,
        last_updated_time=100,
        health_check_timeout_seconds=30,
        message="hot",
    )
    return [
        (messages.NodeWatchResourcesRequest(), b""),
        (messages.NodeWatchResourcesResponse(devices=[device]), part(1, HEALTH)),
        (messages.DeviceHealth(health=messages.HEALTHY), number(2, 1)),
        (messages.DeviceHealth(health=messages.UNKNOWN), b""),
    ]


def pod_resources_cases() -> list[tuple[Message, bytes]]:
    topology = messages.TopologyInfo(nodes=[messages.NUMANode(ID=1)])
    claim = messages.ClaimResource(
        cdi_devices=[messages.CDIDevice(name="v.com/c=a")],
        driver_name="gpu.example.com",
        pool_name="node-1",
        device_name="gpu-0",
        share_id="share-1",
    )
    dynamic = messages.DynamicResource(claim_name="claim", claim_namespace="ns", claim_resources=[claim])
    container = messages.ContainerResources(name="main", cpu_ids=[2, 3], dynamic_resources=[dynamic])
    claim_bytes = part(1, text(1, "v.com/c=a")) + text(2, "gpu.example.com") + text(3, "node-1")
    claim_bytes += text(4, "gpu-0") + text(5, "share-1")
    dynamic_bytes = text(2, "claim") + text(3, "ns") + part(4, claim_bytes)
    return [
        (dynamic, dynamic_bytes),
        (container, text(1, "main") + part(3, bytes([2, 3])) + part(5, dynamic_bytes)),
        (messages.PodResources(name="p", namespace="ns", cpu_ids=[1]), text(1, "p") + text(2, "ns") + part(4, b"\x01")),
        (
            messages.ContainerDevices(resource_name="r", device_ids=["d"], topology=topology),
            text(1, "r") + text(2, "d") + part(3, part(1, number(1, 1))),
        ),
        (
            messages.ContainerMemory(memory_type="memory", size=5, topology=topology),
            text(1, "memory") + number(2, 5) + part(3, part(1, number(1, 1))),
        ),
        (messages.GetPodResourcesRequest(pod_name="p", pod_namespace="ns"), text(1, "p") + text(2, "ns")),
        (
            messages.GetPodResourcesResponse(pod_resources=messages.PodResources(name="p")),
            part(1, text(1, "p")),
        ),
        (
            messages.AllocatableResourcesResponse(
                devices=[messages.ContainerDevices(resource_name="r")],
                cpu_ids=[7],
                memory=[messages.ContainerMemory(size=1)],
            ),
            part(1, text(1, "r")) + part(2, b"\x07") + part(3, number(2, 1)),
        ),
        (
            messages.ListPodResourcesResponse(pod_resources=[messages.PodResources(name="p", namespace="ns")]),
            part(1, text(1, "p") + text(2, "ns")),
        ),
    ]


REGISTRATION_CASES: list[tuple[Message, bytes]] = [
    (
        messages.PluginInfo(
            type="DRAPlugin", name="d.com", endpoint="/p/dra.sock", supported_versions=["v1.DRAPlugin", "v1beta1.D"]
        ),
        text(1, "DRAPlugin")
        + text(2, "d.com")
        + text(3, "/p/dra.sock")
        + text(4, "v1.DRAPlugin")
        + text(4, "v1beta1.D"),
    ),
    (messages.RegistrationStatus(plugin_registered=True), number(1, 1)),
    (messages.RegistrationStatus(error="no"), text(2, "no")),
    (messages.RegistrationStatusResponse(), b""),
]

CASES = REGISTRATION_CASES + dra_cases() + health_cases() + pod_resources_cases()


@pytest.mark.parametrize(("message", "encoded"), CASES)
def test_messages_are_encoded_and_decoded_by_their_field_numbers(message: Message, encoded: bytes) -> None:
    assert message.SerializeToString(deterministic=True) == encoded
    assert type(message).FromString(encoded) == message


def test_a_share_id_may_be_absent() -> None:
    encoded = text(2, "pool") + text(3, "gpu-0") + text(5, "share-1")
    told = messages.Device.FromString(encoded)
    assert told.HasField("share_id")
    assert told.share_id == "share-1"
    assert not messages.Device(pool_name="pool").HasField("share_id")
