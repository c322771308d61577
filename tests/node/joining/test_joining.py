"""A machine joins a cluster by a token, gets certificates of its own, and renews them."""

from __future__ import annotations

import asyncio
import contextlib
import stat
from datetime import UTC, datetime, timedelta

import pytest

from dray.client.api import ApiClient
from dray.client.endpoint import Endpoint
from dray.client.errors import ApiError, ConfigError
from dray.client.http import HttpTransport
from dray.node.errors import NodeError
from dray.node.joining import requests
from dray.node.joining.driver_rights import DriverRights
from dray.node.joining.joining import Invitation, join
from dray.node.joining.membership import CLIENT, Membership, common_name, lifetime
from dray.node.joining.renewal import Renewal
from dray.testing.cluster import kind_of
from tests.node.joining.lab import started

NODES = kind_of("Node")
CLAIMS = kind_of("ResourceClaim")
STATUS = {"namespace": "default", "subresource": "status"}
NOW = "2030-01-01T00:00:00Z"


@pytest.fixture
async def lab():
    async with started() as made:
        yield made


@contextlib.asynccontextmanager
async def acting(membership):
    transport = HttpTransport(membership.endpoint())
    async with ApiClient(transport) as client:
        yield client, transport


def node(name):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


async def test_a_machine_becomes_a_node_and_no_more(lab, tmp_path):
    membership = Membership(tmp_path / "pki", "n1")
    invited = await lab.invite()
    await join(invited, membership)
    assert common_name(membership.credential(CLIENT)) == "system:node:n1"
    for path in (tmp_path / "pki").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert invited.token.partition(".")[2].encode() not in path.read_bytes()
    async with acting(membership) as (client, _):
        await client.create(NODES, node("n1"))
        with pytest.raises(ApiError) as caught:
            await client.create(NODES, node("n2"))
        assert caught.value.status == 403
        serving = await requests.serving_certificate(client, "n1")
    assert common_name(serving) == "system:node:n1"


async def test_a_server_with_another_authority_gets_no_token(lab, tmp_path):
    membership = Membership(tmp_path / "pki", "n1")
    wrong = Invitation(lab.url, await lab.token(), "sha256:" + 64 * "0")
    with pytest.raises(ConfigError, match="somebody in between"):
        await join(wrong, membership)
    assert not membership.exists()
    assert (await lab.admin.list(requests.REQUESTS))["items"] == []


async def test_a_token_that_is_unknown_or_has_ended_is_told(lab, tmp_path):
    membership = Membership(tmp_path / "pki", "n1")
    token = await lab.token()
    await lab.admin.delete(kind_of("Secret"), f"bootstrap-token-{token[:6]}", namespace="kube-system")
    with pytest.raises(NodeError, match="dray join-token"):
        await join(Invitation(lab.url, token, lab.hash), membership)


async def test_a_second_machine_of_the_same_name_waits_for_somebody(lab, tmp_path):
    await lab.admin.create(NODES, node("n1"))
    membership = Membership(tmp_path / "pki", "n1")
    joining = asyncio.create_task(join(await lab.invite(), membership))
    async with asyncio.timeout(30):
        while not (asked := (await lab.admin.list(requests.REQUESTS))["items"]):
            await asyncio.sleep(0.05)
    denied = {"type": "Denied", "status": "True", "message": "there is one"}
    await lab.admin.update(requests.REQUESTS, {**asked[0], "status": {"conditions": [denied]}}, subresource="approval")
    with pytest.raises(NodeError, match="denied: there is one"):
        await joining


async def test_a_machine_with_the_name_of_the_server_is_refused(lab, tmp_path):
    # It would get a certificate with which it could answer the server's clients.
    for name in ("localhost", "192.0.2.9"):
        with pytest.raises(NodeError, match="choose another --node-name"):
            await join(await lab.invite(), Membership(tmp_path / "pki", name))


async def test_a_machine_that_was_interrupted_joins_with_the_key_it_has(lab, tmp_path):
    membership = Membership(tmp_path / "pki", "n1")
    invited = await lab.invite()
    async with ApiClient(HttpTransport(Endpoint(lab.url, ca=lab.authority, token=invited.token))) as client:
        # The certificate was issued, and the machine lost its power before it was stored.
        await requests.client_certificate(client, "n1", membership.joining_key())
    await join(invited, membership)
    async with acting(membership) as (client, _):
        await client.create(NODES, node("n1"))
    assert not (tmp_path / "pki/joining.key").exists()


async def test_drivers_report_of_their_devices_and_of_no_others(lab, tmp_path):
    membership = Membership(tmp_path / "pki", "n1")
    await join(await lab.invite(), membership)
    without = HttpTransport(Endpoint(lab.url, ca=lab.authority))
    async with ApiClient(DriverRights(HttpTransport(membership.endpoint()), without, "n1")) as client:
        await client.create(NODES, node("n1"))
        for name in ("n1", "n2"):
            await claim_on(lab.admin, name)
        ready = {"type": "Ready", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": NOW}
        report = {"driver": "gpu.example.com", "pool": "p", "device": "d", "conditions": [ready]}
        written = await client.patch(CLAIMS, "of-n1", {"status": {"devices": [report]}}, **STATUS)
        assert written["status"]["devices"][0]["conditions"][0]["reason"] == "Up"
        with pytest.raises(ApiError) as caught:
            await client.patch(CLAIMS, "of-n2", {"status": {"devices": [report]}}, **STATUS)
        assert "resourceclaims/driver" in str(caught.value)


async def claim_on(admin, where):
    """One with a device of a node."""
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
    metadata = {"name": f"of-{where}"}
    made = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
    await admin.create(CLAIMS, made, namespace="default")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [where]}]}
    result = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    await admin.patch(CLAIMS, metadata["name"], {"status": {"allocation": allocation}}, **STATUS)


class Later:
    def __init__(self, **delta):
        self._delta = timedelta(**delta)

    def now(self):
        return datetime.now(UTC) + self._delta


async def test_certificates_are_renewed_before_they_end_and_used_at_once(lab, tmp_path):
    membership = Membership(tmp_path / "pki", "n1")
    await join(await lab.invite(), membership)
    first = membership.credential(CLIENT)
    async with acting(membership) as (client, transport):
        await client.create(NODES, node("n1"))

        async def show(credential):
            await transport.show(credential.certificate, credential.key)

        def renewal(time):
            return Renewal(membership, CLIENT, lambda: requests.client_certificate(client, "n1"), show, time=time)

        assert await renewal(Later(days=200)).look() > 0
        assert membership.credential(CLIENT) == first
        assert await renewal(Later(days=350)).look() == 0
        second = membership.credential(CLIENT)
        assert second != first
        assert lifetime(second)[1] > datetime.now(UTC) + timedelta(days=360)
        # It is the node's own certificate that the next one was asked for with.
        asked = (await lab.admin.list(requests.REQUESTS))["items"]
        assert {each["spec"]["username"].rpartition(":")[0] for each in asked} == {"system:bootstrap", "system:node"}
        await client.get(NODES, "n1")
    async with acting(membership) as (client, _):
        await client.get(NODES, "n1")


async def test_what_is_kept_of_another_node_is_refused(lab, tmp_path):
    await join(await lab.invite(), Membership(tmp_path / "pki", "n1"))
    with pytest.raises(NodeError, match="--node-name n1"):
        Membership(tmp_path / "pki", "other").endpoint()
    (tmp_path / "pki/server").unlink()
    with pytest.raises(NodeError, match="join again"):
        Membership(tmp_path / "pki", "n1").endpoint()
