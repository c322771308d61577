from __future__ import annotations

import msgspec

from dray.api import catalogue
from dray.server.authorization import Access
from dray.server.resources import BuiltIn
from dray.server.security.composition import Security
from dray.server.security.stored_view import StoredView
from dray.store.memory import MemoryStore

from .cluster import Object, node_user, pod, user
from .test_rbac import binding, role, rule, subject


def resource(api_version: str, kind: str) -> BuiltIn:
    found = catalogue.find(api_version, kind)
    assert found is not None
    return BuiltIn(found)


PODS = resource("v1", "Pod")
RBAC = "rbac.authorization.k8s.io/v1"


async def put(store: MemoryStore, key: str, obj: Object) -> None:
    def encode(revision: int) -> bytes:
        return msgspec.json.encode(obj)

    if store.get(key) is None:
        await store.create(key, encode)
    else:
        await store.update(key, encode)


async def test_pods_are_found_by_node_wherever_they_go() -> None:
    store = MemoryStore()
    await put(store, "//pods/default/a", pod("a", "n1"))
    await put(store, "//pods/default/b", pod("b"))
    view = StoredView(store)

    def on(node: str) -> list[str]:
        return sorted(found["metadata"]["name"] for found in view.pods_on(node))

    assert on("n1") == ["a"]
    bound = pod("b", "n1")
    await put(store, "//pods/default/b", bound)
    view.observe(PODS, "//pods/default/b", bound)
    assert on("n1") == ["a", "b"]
    await store.delete("//pods/default/a")
    view.observe(PODS, "//pods/default/a", None)
    assert (on("n1"), on("n2")) == (["b"], [])
    assert view.get("", "pods", "default", "b") == bound
    assert view.get("", "pods", "", "default/b") is None
    assert view.get("", "pods", "default", "absent") is None


async def test_security_follows_what_is_written() -> None:
    store = MemoryStore()
    view = StoredView(store)
    security = Security.ephemeral(view)
    roles, bindings = resource(RBAC, "Role"), resource(RBAC, "RoleBinding")
    await put(store, roles.key("team", "r"), role("r", rule("get", "core", "pods"), namespace="team"))
    security.load(store)

    def may() -> bool:
        return security.authorizer.authorize(user("jane"), Access("get", "", "pods", "", "team", "x")).allowed

    assert not may()
    bound = binding("b", "r", subject("User", "jane"), namespace="team", kind="Role")
    security.observe(bindings, bindings.key("team", "b"), bound)
    assert may()
    security.observe(PODS, "//pods/team/b", None)
    security.observe(bindings, bindings.key("other", "b"), None)
    assert may()
    security.observe(bindings, bindings.key("team", "b"), None)
    assert not may()

    bound_pod = pod("mine", "n1")
    await put(store, "//pods/default/mine", bound_pod)
    security.observe(PODS, "//pods/default/mine", bound_pod)
    assert security.authorizer.authorize(node_user("n1"), Access("get", "", "pods", "", "default", "mine")).allowed
