"""Certificates of nodes: who gets one at once, who waits, and what becomes of old requests and tokens."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest

from dray.api import bootstrap_tokens
from dray.client.clock import timestamp
from dray.client.errors import ApiError
from dray.controllers.certificates.cleaner import CertificateCleaner, is_old
from dray.controllers.token_cleaner import TokenCleaner
from dray.server.authorization import AUTHENTICATED, User
from dray.server.security.users import node_user
from dray.testing import objects
from dray.testing.cluster import LocalCluster, kind_of
from tests.server.test_certificate_requests import CLIENT, SERVING, pem, request

JOINING = User("system:bootstrap:abcdef", ("system:bootstrappers", AUTHENTICATED))
SERVES = ("digital signature", "server auth")
REQUESTS = kind_of("CertificateSigningRequest", "certificates.k8s.io/v1")
NOW = datetime(2030, 1, 2, tzinfo=UTC)


def approving(*there):
    return LocalCluster(controllers=["certificatesigningrequest-approving"], objects=there)


async def ask(cluster, user, made):
    await cluster.client_of(user).create(REQUESTS, made)


async def is_issued(cluster, name="r"):
    obj = await cluster.client.get(REQUESTS, name)
    return bool(obj["status"].get("certificate"))


async def settled(cluster):
    """A later request that is certain to be approved was, so the earlier one was looked at."""
    await ask(cluster, node_user("marker"), request("marker", document=pem("system:node:marker")))
    await cluster.eventually(lambda: is_issued(cluster, "marker"))


@pytest.mark.parametrize(
    ("user", "made"),
    [
        (JOINING, request()),
        (node_user("n1"), request()),
        (node_user("n1"), request(signer=SERVING, document=pem(hosts=["n1"]), usages=SERVES)),
    ],
)
async def test_nodes_get_what_is_theirs(user, made):
    async with approving() as cluster:
        await ask(cluster, user, made)
        await cluster.eventually(lambda: is_issued(cluster))


@pytest.mark.parametrize(
    ("user", "made"),
    [
        (node_user("n1"), request(signer=SERVING, document=pem(hosts=["n1", "10.0.0.1"]), usages=SERVES)),
        (node_user("n1"), request(signer=SERVING, document=pem(hosts=["n1", "n2"]), usages=SERVES)),
        (node_user("n1"), request(signer=SERVING, document=pem(hosts=["other"]), usages=SERVES)),
        (node_user("n1"), request(signer=CLIENT, document=pem("jane", ()))),
        (JOINING, request(signer=SERVING, document=pem(hosts=["n1"]), usages=SERVES)),
        (User("jane", ("system:masters", AUTHENTICATED)), request(document=pem("jane"))),
    ],
)
async def test_others_wait_for_somebody(user, made):
    async with approving() as cluster:
        await ask(cluster, user, made)
        await settled(cluster)
        assert not (await cluster.client.get(REQUESTS, "r"))["status"].get("conditions")


@pytest.mark.parametrize(
    "made", [request(), request(signer=SERVING, document=pem(hosts=["n1"]), usages=SERVES)], ids=["client", "serving"]
)
async def test_a_node_may_not_ask_for_the_certificate_of_another(made):
    async with approving() as cluster:
        with pytest.raises(ApiError, match="can only create a node CSR with CN=system:node:n2"):
            await ask(cluster, node_user("n2"), made)


async def test_a_token_does_not_take_the_place_of_a_node_that_is_there():
    async with approving(objects.node("n1")) as cluster:
        await ask(cluster, JOINING, request())

        async def told():
            events = (await cluster.client.list(kind_of("Event")))["items"]
            return [each["message"] for each in events if each["reason"] == "NodeExists"]

        assert "Node n1 exists already" in (await cluster.eventually(told))[0]
        assert not await is_issued(cluster)


def decided(kind, ago, *, certificate=b""):
    obj = request()
    obj["metadata"]["creationTimestamp"] = timestamp(NOW - timedelta(hours=23))
    condition = {"type": kind, "status": "True", "lastUpdateTime": timestamp(NOW - timedelta(minutes=ago))}
    obj["status"] = {"conditions": [condition]}
    if certificate:
        obj["status"]["certificate"] = base64.b64encode(certificate).decode()
    return obj


def test_what_is_old():
    for kind in ("Denied", "Failed"):
        assert is_old(decided(kind, 61), NOW)
        assert not is_old(decided(kind, 59), NOW)
    # One that nobody has signed yet may still be.
    assert not is_old(decided("Approved", 61), NOW)
    assert is_old(decided("Approved", 61, certificate=b"anything"), NOW)
    undecided = decided("Other", 0)
    assert not is_old(undecided, NOW)
    assert is_old(undecided, NOW + timedelta(hours=2))


class Time:
    def __init__(self, moment):
        self.moment = moment

    def now(self):
        return self.moment


async def test_old_requests_are_deleted():
    async with approving() as cluster:
        await ask(cluster, JOINING, request())
        await cluster.eventually(lambda: is_issued(cluster))
        environment = cluster.environment
        cleaner = CertificateCleaner(environment)

        async def seen():
            return any(each["status"].get("certificate") for each in environment.informers.of(REQUESTS).cache)

        await cluster.eventually(seen)
        await cleaner.clean()
        assert await is_issued(cluster)
        cleaner._time = Time(datetime.now(UTC) + timedelta(hours=2))
        await cleaner.clean()
        assert (await cluster.client.list(REQUESTS))["items"] == []


async def test_expired_tokens_are_deleted_and_others_stay():
    async with LocalCluster() as cluster:
        soon, later = (timestamp(NOW + timedelta(hours=hours)) for hours in (-1, 1))
        for token_id, expiration in (("aaaaaa", soon), ("bbbbbb", later)):
            made = bootstrap_tokens.secret(token_id, "0123456789abcdef", expiration=expiration, description="")
            await cluster.create(made)
        await cluster.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "namespace": "kube-system"}}
        )
        cleaner = TokenCleaner(cluster.environment)
        cleaner._time = Time(NOW)
        await cleaner.clean()
        left = await cluster.client.list(kind_of("Secret"), namespace="kube-system")
        assert [each["metadata"]["name"] for each in left["items"]] == ["bootstrap-token-bbbbbb", "x"]
