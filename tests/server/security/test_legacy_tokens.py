"""Tokens that a kube-controller-manager signed for Secrets: good while the Secret holds them."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from dray.server.security import jwt
from dray.server.security.certificates import Key, new_key
from dray.server.security.jwt import TokenError
from dray.server.security.service_account_tokens import TokenIssuer

from .cluster import Clock, Cluster

PREFIX = "kubernetes.io/serviceaccount/"


@pytest.fixture
def key(cluster: Cluster) -> Key:
    cluster.put("", "serviceaccounts", {"metadata": {"name": "driver", "namespace": "default", "uid": "sa-1"}})
    return new_key()


def signed(key: Key, **changed: Any) -> str:
    claims = {
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:default:driver",
        f"{PREFIX}namespace": "default",
        f"{PREFIX}secret.name": "t",
        f"{PREFIX}service-account.name": "driver",
        f"{PREFIX}service-account.uid": "sa-1",
    }
    return jwt.sign({**claims, **changed}, key)


def hold(cluster: Cluster, token: str, **metadata: Any) -> None:
    data = {"token": base64.b64encode(token.encode()).decode()}
    cluster.put(
        "", "secrets", {"metadata": {"name": "t", "namespace": "default", "uid": "s", **metadata}, "data": data}
    )


def test_it_is_its_service_account_for_years(cluster: Cluster, clock: Clock, key: Key) -> None:
    issuer, token = TokenIssuer(cluster, key=key, clock=clock), signed(key)
    hold(cluster, token)
    clock.advance(seconds=10**9)
    user, audiences = issuer.authenticate(token)
    assert (user.name, user.uid) == ("system:serviceaccount:default:driver", "sa-1")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")
    assert audiences == (issuer.issuer,)
    with pytest.raises(TokenError, match="audience"):
        issuer.authenticate(token, ["vault"])


def test_it_ends_with_its_secret_and_its_account(cluster: Cluster, clock: Clock, key: Key) -> None:
    issuer, token = TokenIssuer(cluster, key=key, clock=clock), signed(key)
    with pytest.raises(TokenError, match="secret"):
        issuer.authenticate(token)
    hold(cluster, "another")
    with pytest.raises(TokenError, match="secret"):
        issuer.authenticate(token)
    hold(cluster, token, deletionTimestamp="2026-01-01T00:00:00Z")
    with pytest.raises(TokenError, match="deleted"):
        issuer.authenticate(token)
    hold(cluster, token)
    cluster.put("", "serviceaccounts", {"metadata": {"name": "driver", "namespace": "default", "uid": "sa-2"}})
    with pytest.raises(TokenError, match="gone"):
        issuer.authenticate(token)


@pytest.mark.parametrize(
    "changed", [{"sub": "system:admin"}, {f"{PREFIX}secret.name": None}, {f"{PREFIX}namespace": "other"}]
)
def test_claims_are_checked_even_if_signed(cluster: Cluster, clock: Clock, key: Key, changed: dict[str, Any]) -> None:
    token = signed(key, **changed)
    hold(cluster, token)
    with pytest.raises(TokenError, match=r"claims|subject"):
        TokenIssuer(cluster, key=key, clock=clock).authenticate(token)
