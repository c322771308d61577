"""From raw headers to a user: credentials, loopback, impersonation."""

from __future__ import annotations

from typing import Any

import pytest

from dray.server.authorization import User
from dray.server.listening import ListenError
from dray.server.security.authentication import Authenticator, Tokens
from dray.server.security.composition import Security
from dray.server.security.guard import Guard
from dray.server.security.loopback import check_listen
from dray.server.security.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, RBAC, ROLE, ROLE_BINDING, Authorizers
from dray.server.status import ApiError

from .cluster import Cluster, user

Headers = list[tuple[bytes, bytes]]


def scope(*headers: tuple[str, str], path: str = "/api/v1/pods", query: str = "") -> dict[str, Any]:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    return {"type": "http", "path": path, "query_string": query.encode(), "headers": raw, "state": {}}


def guard_for(security: Security, *users: User) -> Guard:
    """Every user's token is their name."""
    tokens = Tokens({one.name: one for one in users})
    return Guard(Authenticator(tokens), Authorizers(RBAC(security.policy)))


def grant(security: Security, name: str, *rules: dict[str, Any]) -> None:
    """Rules for the user of that name in the whole cluster."""
    security.policy.put(CLUSTER_ROLE, {"metadata": {"name": name}, "rules": list(rules)})
    reference = {"kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [{"kind": "User", "name": name}]}
    security.policy.put(CLUSTER_ROLE_BINDING, binding)


def impersonate(resource: str, *names: str, group: str = "") -> dict[str, Any]:
    return {"verbs": ["impersonate"], "apiGroups": [group], "resources": [resource], "resourceNames": list(names)}


JANE = ("Authorization", "Bearer jane")


@pytest.mark.parametrize(
    "query",
    [
        "access_token=x",
        "token=x",
        "limit=1&token=x",
        "ACCESS_TOKEN=x",
        "acc%65ss_token=x",
        "to%6ben=x",
        "authorization=Bearer%20x",
        "token=",
        "bearer_token=x",
    ],
)
def test_tokens_in_the_query_are_refused(security: Security, query: str) -> None:
    with pytest.raises(ApiError) as refusal:
        guard_for(security, user("jane")).admit(scope(JANE, query=query))
    assert refusal.value.code == 400


@pytest.mark.parametrize("query", ["", "limit=500", "continue=abc%3D%3D", "labelSelector=token%3Dx", "watch=true"])
def test_other_queries_are_not(security: Security, query: str) -> None:
    assert guard_for(security, user("jane")).admit(scope(JANE, query=query)).user.name == "jane"


def test_scheme_is_case_insensitive_and_spaces_do_not_count(security: Security) -> None:
    guard = guard_for(security, user("jane"))
    for header in ("bearer jane", "BEARER   jane", " Bearer jane "):
        assert guard.admit(scope(("Authorization", header))).user.name == "jane"


@pytest.mark.parametrize("name", ["authorization", "impersonate-user", "impersonate-uid"])
def test_headers_that_contradict_each_other_are_refused(security: Security, name: str) -> None:
    with pytest.raises(ApiError) as refusal:
        guard_for(security, user("jane")).admit(scope((name, "a"), (name, "b")))
    assert refusal.value.code == 400


@pytest.mark.parametrize("value", [b"Bearer \xff", b"Bearer a\x00b", b"Bearer a\x0bb"])
def test_bytes_that_are_no_text_are_refused(security: Security, value: bytes) -> None:
    request = {**scope(), "headers": [(b"authorization", value)]}
    with pytest.raises(ApiError) as refusal:
        guard_for(security, user("jane")).admit(request)
    assert refusal.value.code == 400


def test_upper_case_header_names_are_seen(security: Security) -> None:
    request = {**scope(JANE), "headers": [(b"Authorization", b"Bearer jane"), (b"Impersonate-User", b"root")]}
    with pytest.raises(ApiError) as refusal:
        guard_for(security, user("jane")).admit(request)
    assert refusal.value.code == 403


def test_what_looks_like_a_peer_in_the_state_is_none(security: Security) -> None:
    request = {**scope(), "state": {"dray.peer": {"user": "root"}}}
    with pytest.raises(ApiError) as refusal:
        guard_for(security).admit(request)
    assert refusal.value.code == 401


def test_impersonation_needs_the_permission(security: Security) -> None:
    guard = guard_for(security, user("jane"))
    request = scope(JANE, ("Impersonate-User", "bob"))
    with pytest.raises(ApiError) as refusal:
        guard.admit(request)
    assert refusal.value.code == 403
    assert 'User "jane" cannot impersonate resource "users"' in refusal.value.message
    grant(security, "jane", impersonate("users", "bob"))
    caller = guard.admit(request)
    assert (caller.user.name, caller.sender.name, caller.impersonates) == ("bob", "jane", True)
    assert caller.user.groups == ("system:authenticated",)


@pytest.mark.parametrize(
    "header",
    [
        ("Impersonate-Group", "system:masters"),
        ("Impersonate-Group", "devs,system:masters"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Extra-Authentication.kubernetes.io%2fnode-name", "n1"),
    ],
)
def test_a_right_to_the_user_brings_along_nothing_else(security: Security, header: tuple[str, str]) -> None:
    grant(security, "jane", impersonate("users"), impersonate("groups", "devs"))
    with pytest.raises(ApiError) as refusal:
        guard_for(security, user("jane")).admit(scope(JANE, ("Impersonate-User", "bob"), header))
    assert refusal.value.code == 403


def test_one_forbidden_group_among_allowed_ones(security: Security) -> None:
    grant(security, "jane", impersonate("users"), impersonate("groups", "devs"))
    guard = guard_for(security, user("jane"))
    bob = ("Impersonate-User", "bob")
    assert "devs" in guard.admit(scope(JANE, bob, ("Impersonate-Group", "devs"))).user.groups
    with pytest.raises(ApiError):
        guard.admit(scope(JANE, bob, ("Impersonate-Group", "devs"), ("Impersonate-Group", "system:masters")))


def test_nothing_of_the_sender_is_carried_over(security: Security) -> None:
    sender = User("jane", ("admins", "system:authenticated"), "uid", {"x": ("y",)})
    grant(security, "jane", impersonate("users"))
    acting = guard_for(security, sender).admit(scope(JANE, ("Impersonate-User", "bob"))).user
    assert acting == User("bob", ("system:authenticated",))


def test_extra_is_a_permission_by_key_and_value(security: Security) -> None:
    extra = impersonate("userextras/scopes", "view", group="authentication.k8s.io")
    grant(security, "jane", impersonate("users"), extra)
    guard = guard_for(security, user("jane"))
    bob = ("Impersonate-User", "bob")
    assert guard.admit(scope(JANE, bob, ("Impersonate-Extra-Scopes", "view"))).user.extra == {"scopes": ("view",)}
    with pytest.raises(ApiError):
        guard.admit(scope(JANE, bob, ("Impersonate-Extra-Scopes", "edit")))


def test_service_accounts_are_impersonated_by_namespace(security: Security) -> None:
    rule = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts"]}
    security.policy.put(ROLE, {"metadata": {"name": "r", "namespace": "team"}, "rules": [rule]})
    subjects = [{"kind": "User", "name": "jane"}]
    reference = {"kind": "Role", "name": "r"}
    metadata = {"name": "b", "namespace": "team"}
    security.policy.put(ROLE_BINDING, {"metadata": metadata, "roleRef": reference, "subjects": subjects})
    guard = guard_for(security, user("jane"))
    acting = guard.admit(scope(JANE, ("Impersonate-User", "system:serviceaccount:team:x"))).user
    assert acting.groups == ("system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated")
    for other in (
        "system:serviceaccount:kube-system:x",
        "system:serviceaccount:team",
        "system:serviceaccount:team:a:b",
    ):
        with pytest.raises(ApiError):
            guard.admit(scope(JANE, ("Impersonate-User", other)))


@pytest.mark.parametrize(
    "headers",
    [
        [("Impersonate-Group", "x")],
        [("Impersonate-Uid", "x")],
        [("Impersonate-User", "")],
        [("Impersonate-User", "bob"), ("Impersonate-Group", "")],
        [("Impersonate-User", "bob"), ("Impersonate-Groups", "x")],
    ],
)
def test_half_an_impersonation_is_refused_even_for_the_admin(
    security: Security, headers: list[tuple[str, str]]
) -> None:
    guard = guard_for(security, user("root", "system:masters"))
    with pytest.raises(ApiError) as refusal:
        guard.admit(scope(("Authorization", "Bearer root"), *headers))
    assert refusal.value.code == 400


def test_the_anonymous_cannot_impersonate(security: Security) -> None:
    with pytest.raises(ApiError) as refusal:
        guard_for(security).admit(scope(("Impersonate-User", "root"), path="/healthz"))
    assert refusal.value.code == 403


def test_impersonating_the_anonymous(security: Security) -> None:
    guard = guard_for(security, user("root", "system:masters"))
    headers = [("Authorization", "Bearer root"), ("Impersonate-User", "system:anonymous")]
    assert guard.admit(scope(*headers)).user.groups == ("system:unauthenticated",)


@pytest.fixture
def plain() -> Guard:
    return Security.ephemeral(Cluster(), plain=True).guard


@pytest.mark.parametrize("host", ["localhost:8001", "127.0.0.1:8001", "[::1]:8001", "LOCALHOST", "127.0.0.2"])
def test_plain_http_trusts_programs_on_this_machine(plain: Guard, host: str) -> None:
    assert plain.admit(scope(("Host", host))).user.groups[0] == "system:masters"
    assert plain.admit(scope(("Host", host), ("Origin", f"http://{host}"))).user.name == "system:admin"


@pytest.mark.parametrize(
    "headers",
    [
        [("Host", "evil.example.com")],
        [("Host", "localhost.evil.example.com")],
        [("Host", "127.0.0.1.evil.example.com:8001")],
        [("Host", "localhost@evil.example.com")],
        [("Host", "0.0.0.0:8001")],
        [("Host", "192.0.2.1")],
        [],
        [("Host", "localhost"), ("Host", "evil.example.com")],
        [("Host", "localhost:8001"), ("Origin", "https://evil.example.com")],
        [("Host", "localhost:8001"), ("Origin", "http://localhost:3000")],
        [("Host", "localhost:8001"), ("Origin", "null")],
        [("Host", "localhost:8001"), ("Sec-Fetch-Site", "cross-site")],
        [("Host", "localhost:8001"), ("Sec-Fetch-Site", "same-site")],
    ],
)
def test_plain_http_does_not_trust_web_pages(plain: Guard, headers: list[tuple[str, str]]) -> None:
    with pytest.raises(ApiError) as refusal:
        plain.admit(scope(*headers))
    assert refusal.value.code == 403


def test_wrong_credentials_do_not_fall_back_to_trust(plain: Guard) -> None:
    for header in ("Bearer wrong", "Basic YTpi", ""):
        with pytest.raises(ApiError) as refusal:
            plain.admit(scope(("Host", "localhost"), ("Authorization", header)))
        assert refusal.value.code == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "gpu-box", "192.0.2.1", "127.0.0.1.nip.io"])
def test_plain_http_is_for_loopback_only(host: str) -> None:
    with pytest.raises(ListenError):
        check_listen(host)
    check_listen("127.0.0.1")
