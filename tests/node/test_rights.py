"""What an agent may do at a server, with the rights of its node: what is its own, and nothing else."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from dray.client.api import ApiClient
from dray.client.errors import ApiError
from dray.client.interface import PatchType, Selection
from dray.server.security.users import node_user
from dray.testing.cluster import LocalCluster, kind_of

NODES, PODS, SECRETS, SLICES = (kind_of(name) for name in ("Node", "Pod", "Secret", "ResourceSlice"))
DOWN = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}


def node(name):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def pod(name, where):
    volume = {"name": "v", "secret": {"secretName": f"of-{name}"}}
    spec = {"nodeName": where, "containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def secret(name):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}


def slice_(name, where):
    pool = {"name": where, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": where, "pool": pool, "devices": [{"name": "d"}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


OBJECTS = [
    *(node(each) for each in ("here", "there")),
    *(secret(each) for each in ("of-mine", "of-theirs")),
    pod("mine", "here"),
    pod("theirs", "there"),
    slice_("slice-here", "here"),
    slice_("slice-there", "there"),
]


async def refused(asking: Awaitable[object]) -> bool:
    with pytest.raises(ApiError) as caught:
        await asking
    return caught.value.status == 403


def status(client: ApiClient, kind, name, namespace="") -> Awaitable[object]:
    return client.patch(kind, name, DOWN, namespace=namespace, patch_type=PatchType.STRATEGIC, subresource="status")


@pytest.fixture
async def cluster():
    async with LocalCluster(objects=OBJECTS) as made:
        yield made


async def test_a_node_has_what_is_its_own(cluster):
    client = cluster.client_of(node_user("here"))
    await client.get(NODES, "here")
    await status(client, NODES, "here")
    await status(client, PODS, "mine", "default")
    await client.get(SECRETS, "of-mine", namespace="default")
    await client.get(SLICES, "slice-here")
    mine = Selection(fields="spec.nodeName=here")
    assert [each["metadata"]["name"] for each in (await client.list(PODS, selection=mine))["items"]] == ["mine"]
    await client.delete_collection(SLICES, selection=mine)
    assert [each["metadata"]["name"] for each in (await cluster.client.list(SLICES))["items"]] == ["slice-there"]


async def test_and_nothing_of_others(cluster):
    client = cluster.client_of(node_user("here"))
    assert await refused(client.get(NODES, "there"))
    assert await refused(status(client, NODES, "there"))
    assert await refused(client.delete(NODES, "there"))
    assert await refused(status(client, PODS, "theirs", "default"))
    assert await refused(client.delete(PODS, "theirs", namespace="default"))
    assert await refused(client.get(SECRETS, "of-theirs", namespace="default"))
    assert await refused(client.list(SECRETS))
    assert await refused(client.list(PODS))
    assert await refused(client.get(SLICES, "slice-there"))
    assert await refused(client.delete(SLICES, "slice-there"))
    assert await refused(client.delete_collection(SLICES, selection=Selection(fields="spec.nodeName=there")))
    assert await refused(client.create(SLICES, slice_("forged", "there")))
    assert await refused(client.create(PODS, pod("own", "here"), namespace="default"))
    taints = {"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}}
    assert await refused(client.patch(NODES, "here", taints))
    assert await refused(client.list(kind_of("DeviceClass")))
