"""Bootstrap tokens: who holds one is a machine that joins, until it expires."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest

from dray.api import bootstrap_tokens
from dray.client.clock import timestamp
from dray.server.authorization import Access
from dray.server.security.composition import Security
from dray.server.security.jwt import TokenError

from .cluster import Clock, Cluster

TOKEN = "abcdef.0123456789abcdef"


def put(cluster: Cluster, clock: Clock, **changes: Any) -> None:
    end = timestamp(clock.now + timedelta(hours=1))
    made = bootstrap_tokens.secret("abcdef", "0123456789abcdef", expiration=end, description="")
    texts = {**made.pop("stringData"), **changes}
    made["data"] = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    made["type"] = texts.get("type", made["type"])
    cluster.put("", "secrets", made)


def test_a_token_stands_for_a_machine_that_joins(security: Security, cluster: Cluster, clock: Clock) -> None:
    put(cluster, clock, **{"auth-extra-groups": "system:bootstrappers:lab"})
    user, _ = security.tokens.authenticate(TOKEN)
    assert user.name == "system:bootstrap:abcdef"
    assert user.groups == ("system:bootstrappers", "system:bootstrappers:lab", "system:authenticated")
    secrets = Access("get", "", "secrets", namespace="kube-system", name="bootstrap-token-abcdef")
    assert not security.authorizer.authorize(user, secrets).allowed


@pytest.mark.parametrize(
    "changes",
    [
        {"token-id": "fedcba"},
        {"token-secret": "0123456789abcdee"},
        {"token-secret": ""},
        {"usage-bootstrap-authentication": "false"},
        {"expiration": "2001-01-01T00:00:00Z"},
        {"expiration": "tomorrow"},
        {"auth-extra-groups": "system:masters"},
        {"auth-extra-groups": "system:bootstrappers:lab,system:nodes"},
        {"type": "Opaque"},
    ],
)
def test_what_no_token_is(security: Security, cluster: Cluster, clock: Clock, changes: dict[str, str]) -> None:
    put(cluster, clock, **changes)
    with pytest.raises(TokenError):
        security.tokens.authenticate(TOKEN)


def test_it_ends(security: Security, cluster: Cluster, clock: Clock) -> None:
    put(cluster, clock)
    security.tokens.authenticate(TOKEN)
    clock.advance(hours=1, seconds=1)
    with pytest.raises(TokenError):
        security.tokens.authenticate(TOKEN)


def test_without_a_secret_there_is_no_token(security: Security) -> None:
    for token in (TOKEN, "abcdef.", "abcdef.0123456789abcdeF", TOKEN + "x"):
        with pytest.raises(TokenError):
            security.tokens.authenticate(token)
