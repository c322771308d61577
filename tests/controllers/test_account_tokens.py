"""Secrets with a token of a service account: filled in, and gone with the account."""

import base64

from dray.server.security.jwt import TokenError
from dray.testing.cluster import LocalCluster

ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "default"}}
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "name": "robot-token",
        "namespace": "default",
        "annotations": {"kubernetes.io/service-account.name": "robot"},
    },
    "type": "kubernetes.io/service-account-token",
}


def tokens():
    return LocalCluster(controllers=["serviceaccount-token"])


async def filled(cluster):
    async def has_token():
        found = await cluster.get("Secret", "robot-token")
        return found if found and (found.get("data") or {}).get("token") else None

    return await cluster.eventually(has_token)


async def gone(cluster):
    async def is_gone():
        return await cluster.get("Secret", "robot-token") is None

    await cluster.eventually(is_gone)


def whose(cluster, secret):
    token = base64.b64decode(secret["data"]["token"]).decode()
    try:
        return cluster.server.context.security.issuer.authenticate(token)[0].name
    except TokenError:
        return None


async def test_a_secret_gets_a_token_that_ends_with_it():
    async with tokens() as cluster:
        account = await cluster.create(ACCOUNT)
        await cluster.create(SECRET)
        secret = await filled(cluster)
        assert base64.b64decode(secret["data"]["namespace"]) == b"default"
        assert base64.b64decode(secret["data"]["ca.crt"]).startswith(b"-----BEGIN CERTIFICATE")
        assert secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == account["metadata"]["uid"]
        assert whose(cluster, secret) == "system:serviceaccount:default:robot"
        await cluster.delete("Secret", "robot-token")
        assert whose(cluster, secret) is None


async def test_a_secret_goes_with_its_account():
    async with tokens() as cluster:
        await cluster.create(ACCOUNT)
        await cluster.create(SECRET)
        await filled(cluster)
        await cluster.delete("ServiceAccount", "robot")
        await gone(cluster)


async def test_a_secret_of_no_account_goes():
    async with tokens() as cluster:
        await cluster.create(SECRET)
        await gone(cluster)
