"""Users of `dray up` on the page: tokens that the API server accepts, for as long as it does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dray.api.catalogue import built_in
from dray.cli.page import ServerAccess
from dray.server.authorization import User
from dray.testing.cluster import LocalCluster
from dray.web.model import Model
from dray.web.page import Page
from tests.web.asgi import OWN, Viewer
from tests.web.test_page import VIEW, pod

ACCOUNTS = built_in("v1", "ServiceAccount")


@asynccontextmanager
async def page_of(cluster: LocalCluster) -> AsyncIterator[Page]:
    guard = cluster.server.context.security.guard
    page = Page([VIEW], Model(cluster.client), ServerAccess(cluster.application, guard))
    try:
        yield page
    finally:
        await page.close()


async def token_of(cluster: LocalCluster, name: str) -> str:
    await cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = await cluster.client.create(ACCOUNTS, request, namespace="default", name=name, subresource="token")
    return str(made["status"]["token"])


async def test_a_token_of_a_service_account_is_good_until_the_account_is_deleted() -> None:
    async with LocalCluster() as cluster, page_of(cluster) as page:
        token = await token_of(cluster, "ann")
        viewer = Viewer(page)
        assert (await viewer.sign_in(token=token)).json["user"] == "system:serviceaccount:default:ann"
        async with viewer.stream("/ui/stream/pods") as answer:
            [(_, document)] = await answer.until_event(1)
            assert document == {"pods": {}}
            await cluster.create(pod("hidden"))
            await cluster.client.delete(ACCOUNTS, "ann", namespace="default")
            assert [event for event, _ in await answer.until_event(5)] == ["snapshot", "over"]
        assert (await viewer.send("GET", "/ui/session")).status == 401


async def test_users_whose_names_and_groups_read_the_same_have_keys_of_their_own() -> None:
    users = [
        User("ann", ("dev", "ops")),
        User("ann", ("dev ops",)),
        User("ann dev", ("ops",)),
        User("ann", ("ops",), "dev"),
    ]
    async with LocalCluster() as cluster:
        access = ServerAccess(cluster.application, cluster.server.context.security.guard)
        keys = set()
        for user in users:
            access._user = lambda scope, user=user: user  # type: ignore[method-assign,misc]
            identity = access.identify({"path": "/ui/session", "headers": []}, "token")
            assert identity is not None
            keys.add(identity.key)
        assert len(keys) == len(users)


async def test_sign_in_needs_a_credential_and_cannot_impersonate() -> None:
    async with LocalCluster() as cluster, page_of(cluster) as page:
        token = await token_of(cluster, "ann")
        as_admin = {**OWN, "impersonate-user": "kubernetes-admin", "impersonate-group": "system:masters"}
        refused = await Viewer(page).send("POST", "/ui/session", {"token": token}, headers=as_admin)
        assert refused.status == 401
        assert (await Viewer(page).send("POST", "/ui/session", {"token": token + "x"})).status == 401
        shown = {**OWN, "authorization": f"Bearer {token}"}
        code = (await Viewer(page).send("POST", "/ui/code", {}, headers=shown)).json["code"]
        assert (await Viewer(page).sign_in(code=code)).json["user"] == "system:serviceaccount:default:ann"


@pytest.mark.parametrize(
    ("path", "is_page"), [("*", False), ("/", False), ("/uix", False), ("/ui", True), ("/ui/x", True)]
)
async def test_the_page_answers_for_its_own_paths_alone(path: str, is_page: bool) -> None:
    async with LocalCluster() as cluster, page_of(cluster) as page:
        cluster.application.mount("/ui", page)
        answer = await Viewer(cluster.application).send("GET", path)
        assert (answer.status != 500, bool(answer.header("content-security-policy"))) == (True, is_page)
