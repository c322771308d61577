"""Tokens of service accounts: request, use, review, end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.server.security import jwt, token_requests
from dray.server.security.authentication import Tokens, load_token
from dray.server.security.certificates import new_key
from dray.server.security.jwt import TokenError
from dray.server.security.service_account_tokens import Bindings, Reference, TokenIssuer
from dray.server.status import ApiError

from .cluster import Clock, Cluster, Object, pod

NAMESPACE = "default"


@pytest.fixture
def account(cluster: Cluster) -> Object:
    return cluster.put("", "serviceaccounts", {"metadata": {"name": "driver", "namespace": NAMESPACE, "uid": "sa-1"}})


@pytest.fixture
def issuer(cluster: Cluster, clock: Clock) -> TokenIssuer:
    return TokenIssuer(cluster, clock=clock)


def request(issuer: TokenIssuer, cluster: Cluster, account: Object, **spec: Any) -> Object:
    return token_requests.request_token(issuer, cluster, account, {"spec": spec})


def token_for(issuer: TokenIssuer, cluster: Cluster, account: Object, **spec: Any) -> str:
    return str(request(issuer, cluster, account, **spec)["status"]["token"])


def test_a_token_is_its_service_account(issuer: TokenIssuer, cluster: Cluster, account: Object) -> None:
    user, _ = issuer.authenticate(token_for(issuer, cluster, account))
    assert (user.name, user.uid) == ("system:serviceaccount:default:driver", "sa-1")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")


def test_a_token_for_a_pod_knows_its_node(issuer: TokenIssuer, cluster: Cluster, account: Object) -> None:
    cluster.put("", "nodes", {"metadata": {"name": "n1", "uid": "node-1"}})
    cluster.put("", "pods", pod("plugin", "n1", serviceAccountName="driver"))
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "plugin"}
    user, _ = issuer.authenticate(token_for(issuer, cluster, account, boundObjectRef=reference))
    assert user.extra["authentication.kubernetes.io/node-name"] == ("n1",)
    assert user.extra["authentication.kubernetes.io/pod-name"] == ("plugin",)


def test_a_token_ends(issuer: TokenIssuer, cluster: Cluster, account: Object, clock: Clock) -> None:
    token = token_for(issuer, cluster, account, expirationSeconds=600)
    clock.advance(seconds=599)
    issuer.authenticate(token)
    clock.advance(seconds=1)
    with pytest.raises(TokenError, match="expired"):
        issuer.authenticate(token)


def test_a_token_from_the_future_waits(issuer: TokenIssuer, cluster: Cluster, account: Object, clock: Clock) -> None:
    token = token_for(issuer, cluster, account)
    clock.advance(hours=-1)
    with pytest.raises(TokenError, match="not valid yet"):
        issuer.authenticate(token)


@pytest.mark.parametrize("resource", ["serviceaccounts", "pods"])
@pytest.mark.parametrize("again", [True, False])
def test_a_token_ends_with_what_it_is_bound_to(
    issuer: TokenIssuer, cluster: Cluster, account: Object, resource: str, again: bool
) -> None:
    cluster.put("", "pods", pod("plugin", serviceAccountName="driver"))
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "plugin"}
    token = token_for(issuer, cluster, account, boundObjectRef=reference)
    issuer.authenticate(token)
    name = "driver" if resource == "serviceaccounts" else "plugin"
    gone = cluster.objects.pop(("", resource, NAMESPACE, name))
    if again:
        cluster.put("", resource, {**gone, "metadata": {**gone["metadata"], "uid": "another"}})
    with pytest.raises(TokenError, match="gone"):
        issuer.authenticate(token)


def test_audiences_are_kept_apart(issuer: TokenIssuer, cluster: Cluster, account: Object) -> None:
    token = token_for(issuer, cluster, account, audiences=["vault"])
    with pytest.raises(TokenError, match="audience"):
        issuer.authenticate(token)
    assert issuer.authenticate(token, ["other", "vault"])[1] == ("vault",)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"iss": "https://elsewhere"}, "issuer"),
        ({"sub": "system:serviceaccount:kube-system:admin"}, "subject"),
        ({"exp": "9999999999"}, "claims"),
        ({"exp": None}, "claims"),
        ({"kubernetes.io": None}, "claims"),
    ],
)
def test_claims_are_checked_even_if_signed(
    cluster: Cluster, account: Object, clock: Clock, claims: dict[str, Any], why: str
) -> None:
    key = new_key()
    issuer = TokenIssuer(cluster, key=key, clock=clock)
    now = int(clock().timestamp())
    good = {
        "iss": issuer.issuer,
        "sub": "system:serviceaccount:default:driver",
        "aud": [issuer.issuer],
        "exp": now + 60,
        "iat": now,
        "nbf": now,
        "jti": "1",
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "driver", "uid": "sa-1"}},
    }
    issuer.authenticate(jwt.sign(good, key))
    with pytest.raises(TokenError, match=why):
        issuer.authenticate(jwt.sign({**good, **claims}, key))


def test_the_key_survives_a_restart(directory: Path, cluster: Cluster, account: Object) -> None:
    bindings = Bindings(NAMESPACE, Reference("driver", "sa-1"))
    token, _ = TokenIssuer.open(directory, cluster).issue(bindings)
    assert TokenIssuer.open(directory, cluster).authenticate(token)[0].uid == "sa-1"
    with pytest.raises(TokenError, match="unknown key"):
        TokenIssuer(cluster).authenticate(token)


def test_what_is_remembered_is_bounded(issuer: TokenIssuer, cluster: Cluster, account: Object) -> None:
    bindings = Bindings(NAMESPACE, Reference("driver", "sa-1"))
    for _ in range(1100):
        issuer.authenticate(issuer.issue(bindings)[0])
    assert len(issuer._verified) <= 1024


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"expirationSeconds": 10}, 422),
        ({"expirationSeconds": 2**33}, 422),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "absent"}}, 404),
        ({"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}}, 400),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "other-account"}}, 400),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "plugin", "uid": "stale"}}, 409),
    ],
)
def test_requests_that_are_refused(
    issuer: TokenIssuer, cluster: Cluster, account: Object, spec: Object, code: int
) -> None:
    cluster.put("", "pods", pod("plugin", serviceAccountName="driver"))
    cluster.put("", "pods", pod("other-account", serviceAccountName="someone"))
    with pytest.raises(ApiError) as refusal:
        request(issuer, cluster, account, **spec)
    assert refusal.value.code == code


def test_a_pod_of_another_namespace_cannot_be_bound(issuer: TokenIssuer, cluster: Cluster, account: Object) -> None:
    cluster.put("", "pods", pod("plugin", namespace="other", serviceAccountName="driver"))
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "plugin", "namespace": "other"}
    with pytest.raises(ApiError) as refusal:
        request(issuer, cluster, account, boundObjectRef=reference)
    assert refusal.value.code == 404


def test_a_review_says_whose_a_token_is(issuer: TokenIssuer, cluster: Cluster, account: Object) -> None:
    tokens = Tokens.for_admin("s3cret", issuer)
    token = token_for(issuer, cluster, account)

    def review(token: str, **spec: Any) -> Object:
        body = {"spec": {"token": token, **spec}}
        return dict(token_requests.review_token(tokens, body, issuer.issuer)["status"])

    assert review(token)["user"]["username"] == "system:serviceaccount:default:driver"
    assert review(token)["audiences"] == [issuer.issuer]
    assert review("s3cret")["user"]["username"] == "system:admin"
    assert "authenticated" not in review(token, audiences=["vault"])
    assert "authenticated" not in review(token[:-4] + "AAAA")
    assert token not in str(token_requests.review_token(tokens, {"spec": {"token": token}}, issuer.issuer))


def test_the_static_token_is_kept(directory: Path) -> None:
    token = load_token(directory)
    assert len(token) >= 43
    assert load_token(directory) == token
    assert (directory / "admin.token").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("token", ["", "S3CRET", "s3cret ", "s3cre", "s3crett", "\udc80"])
def test_a_static_token_must_be_exact(token: str) -> None:
    with pytest.raises(TokenError):
        Tokens.for_admin("s3cret").authenticate(token)
