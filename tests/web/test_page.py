"""The page as an application: sign-in, and who sees what. Most tests play an attacker."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dray.api.objects import Object, key_of
from dray.client.api import ApiClient
from dray.client.errors import ApiError, ClientError, ConnectionFailed
from dray.server.authorization import ADMIN, User
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from dray.web import rights
from dray.web.access import Identity
from dray.web.model import Model
from dray.web.page import Page, PageLimits
from dray.web.rights import Sight
from dray.web.view import BadCall, Call, Question, View
from tests.web.asgi import HOST, OWN, Viewer

ANN = User("ann", ("system:authenticated",))
MARKUP = "</script><img src=x onerror=alert(1)>"


def names(question: Question) -> Object:
    return {"pods": {"/".join(key_of(pod)): {"name": key_of(pod)[1]} for pod in question.objects("pods")}}


async def echo(call: Call) -> Any:
    if "fail" in call.body:
        raise BadCall(call.text("fail"))
    return {"got": call.text("text", ""), "pods": len(list(call.question.objects("pods")))}


VIEW = View("pods", ("pods",), names, calls={"echo": echo}, parameters=("q",), interval=0.01)


class TokenAccess:
    """Users by token; a token can be revoked."""

    def __init__(self, users: Mapping[str, Identity]) -> None:
        self.users = dict(users)

    def identify(self, scope: Mapping[str, Any], token: str) -> Identity | None:
        return self.users.get(token)


class Stage:
    def __init__(
        self, cluster: LocalCluster, limits: PageLimits | None = None, views: Sequence[View] = (VIEW,)
    ) -> None:
        self.cluster = cluster
        self.revoked: set[str] = set()
        users = {name: self.identity(name, user) for name, user in (("admin-token", ADMIN), ("ann-token", ANN))}
        self.model = Model(cluster.client)
        self.page = Page(views, self.model, TokenAccess(users), loopback=True, limits=limits)

    def identity(self, token: str, user: User) -> Identity:
        return Identity(user.name, user.name, self.cluster.client_of(user), lambda: token not in self.revoked)

    async def signed_in(self, token: str = "admin-token") -> Viewer:
        viewer = Viewer(self.page)
        assert (await viewer.sign_in(token=token)).status == 200
        return viewer


def pod(name: str, namespace: str = "default") -> Object:
    return objects.pod(name, namespace=namespace)


@asynccontextmanager
async def stage(limits: PageLimits | None = None) -> AsyncIterator[Stage]:
    async with LocalCluster() as cluster:
        for namespace in ("red", "blue"):
            await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        await cluster.apply(pod("p"), pod("r", "red"), pod("b", "blue"))
        made = Stage(cluster, limits)
        try:
            yield made
        finally:
            await made.page.close()


async def test_a_token_is_exchanged_for_a_cookie_that_scripts_and_other_sites_cannot_use() -> None:
    async with stage() as made:
        viewer = Viewer(made.page, scheme="https")
        answer = await viewer.sign_in(token="admin-token")
        cookie = answer.header("set-cookie")
        assert {"HttpOnly", "SameSite=Strict", "Path=/ui", "Secure"} <= set(cookie.split("; "))
        assert "admin-token" not in cookie + answer.body.decode()
        assert (await viewer.send("GET", "/ui/session")).json["user"] == "system:admin"
        await viewer.send("DELETE", "/ui/session")
        assert (await viewer.send("GET", "/ui/session")).status == 401


async def test_wrong_tokens_and_no_credentials_are_refused() -> None:
    async with stage() as made:
        for credential in ({}, {"token": "x"}, {"code": "AAAA-AAAA"}, {"token": "x", "code": ""}):
            assert (await Viewer(made.page).sign_in(**credential)).status == 401
        assert (await Viewer(made.page).send("POST", "/ui/session", {"token": 7})).status == 400
        assert (await Viewer(made.page).send("POST", "/ui/session", b"[" * 5000)).status == 400
        assert (await Viewer(made.page).send("POST", "/ui/session", b"{" + b" " * 2_000_000)).status == 413


async def test_kinds_that_may_not_be_listed_are_told_at_once() -> None:
    async with LocalCluster() as cluster:
        model = Model(cluster.client_of(ANN))
        try:
            async with asyncio.timeout(10):
                await model.need(["nodes", "pods"])
            assert ["cannot list nodes" in each for each in model.troubles(["nodes"])] == [True]
        finally:
            await model.close()


async def test_a_code_is_good_once_and_wrong_codes_are_limited() -> None:
    async with stage() as made:
        code = made.page.codes.issue(made.identity("ann-token", ANN))
        assert (await Viewer(made.page).sign_in(code=code.lower())).json["user"] == "ann"
        assert (await Viewer(made.page).sign_in(code=code)).status == 401
        tried = [(await Viewer(made.page).sign_in(code=f"AAAA-{number:04}")).status for number in range(12)]
        assert tried[-1] == 429
        # Who guesses at another address keeps nobody from signing in.
        code = made.page.codes.issue(made.identity("ann-token", ANN))
        assert (await Viewer(made.page).sign_in(code=code)).status == 429
        assert (await Viewer(made.page, address="192.0.2.7").sign_in(code=code)).status == 200


async def test_a_user_who_asks_for_many_codes_takes_none_from_others() -> None:
    async with stage() as made:
        admin, ann = made.identity("admin-token", ADMIN), made.identity("ann-token", ANN)
        code = made.page.codes.issue(admin)
        own = [made.page.codes.issue(ann) for _ in range(300)]
        assert (await Viewer(made.page).sign_in(code=code)).json["user"] == "system:admin"
        newest, oldest = Viewer(made.page, address="192.0.2.1"), Viewer(made.page, address="192.0.2.2")
        assert [(await newest.sign_in(code=each)).status for each in own[-10:]] == [200] * 10
        assert (await oldest.sign_in(code=own[-11])).status == 401


async def test_wrong_codes_from_many_addresses_are_limited_in_all() -> None:
    async with stage() as made:
        tried = [
            (await Viewer(made.page, address=f"192.0.2.{number}").sign_in(code="AAAA-AAAA")).status
            for number in range(250)
        ]
        assert tried.index(429) == 200


PROTECTED = [
    ("GET", "/ui/stream/pods"),
    ("POST", "/ui/call/pods/echo"),
    ("GET", "/ui/session"),
    ("POST", "/ui/session"),
    ("DELETE", "/ui/session"),
    ("POST", "/ui/code"),
]
FOREIGN = [
    {},
    {"sec-fetch-site": "same-origin"},
    {**OWN, "sec-fetch-site": "cross-site"},
    {**OWN, "sec-fetch-site": "same-site"},
    {**OWN, "origin": "http://evil.example"},
    {**OWN, "origin": "null"},
    {**OWN, "origin": f"https://{HOST}"},
    {**OWN, "host": "evil.example"},
    {**OWN, "host": "127.0.0.1.evil.example:8100"},
    {**OWN, "host": ""},
]
"""Headers of requests that the page did not send."""


async def test_requests_of_other_origins_are_refused() -> None:
    async with stage() as made:
        viewer = await made.signed_in()
        for foreign, (method, path) in itertools.product(FOREIGN, PROTECTED):
            answer = await viewer.send(method, path, {}, headers=foreign)
            assert (answer.status, method, path, foreign) == (403, method, path, foreign)


async def test_a_cookie_gives_no_code() -> None:
    async with stage() as made:
        viewer = await made.signed_in()
        assert (await viewer.send("POST", "/ui/code", {})).status == 401
        shown = {**OWN, "authorization": "Bearer ann-token"}
        code = (await Viewer(made.page).send("POST", "/ui/code", {}, headers=shown)).json["code"]
        assert (await Viewer(made.page).sign_in(code=code)).json["user"] == "ann"


async def test_every_answer_has_the_headers_that_protect_it() -> None:
    async with stage() as made:
        viewer = await made.signed_in()
        for path in (
            "/ui",
            "/ui/any/view?x=1",
            "/ui/static/main.js",
            "/ui/static/../page.py",
            "/ui/session",
            "/ui/call/x/y",
        ):
            answer = await viewer.send("GET", path)
            policy = answer.header("content-security-policy")
            assert "default-src 'none'" in policy
            # Strings cannot become markup, whatever a script does with them.
            assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.header("x-content-type-options") == "nosniff"
        assert (await viewer.send("GET", "/ui/static/../page.py")).status == 404
        paths = ("/", "/ui", "/ui/", "/ui/waiting/pod/a/b", "/uix", "/api/v1/secrets", "/version", "//ui")
        statuses = [(await viewer.send("GET", path)).status for path in paths]
        assert statuses == [200, 200, 200, 200, 404, 404, 404, 404]


async def test_requests_with_other_methods_are_refused() -> None:
    async with stage() as made:
        viewer = await made.signed_in()
        asked = [("/ui/stream/pods", "POST"), ("/ui/call/pods/echo", "GET")]
        asked += itertools.product(("/ui/stream/pods", "/ui/call/pods/echo"), ("PUT", "PATCH", "HEAD"))
        for path, method in asked:
            async with asyncio.timeout(10):
                assert (await viewer.send(method, path)).status in (404, 405), (method, path)
        assert (await viewer.send("PUT", "/ui/session")).status == 405
        assert (await viewer.send("OPTIONS", "/ui/call/pods/echo", headers={})).status == 403
        assert (await viewer.send("POST", "/ui/session/x", {})).status == 405


async def test_changes_arrive_as_merge_patches() -> None:
    async with stage() as made:
        viewer = await made.signed_in()
        async with viewer.stream("/ui/stream/pods") as answer:
            [(event, document)] = await answer.until_event(1)
            assert (event, sorted(document["pods"])) == ("snapshot", ["blue/b", "default/p", "red/r"])
            await made.cluster.create(pod("new"))
            assert (await answer.until_event(2))[1] == ("change", {"pods": {"default/new": {"name": "new"}}})


async def grant(made: Stage, namespace: str) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    group = "rbac.authorization.k8s.io"
    meta = {"name": "reader", "namespace": namespace}
    await made.cluster.create({"apiVersion": f"{group}/v1", "kind": "Role", "metadata": meta, "rules": rules})
    await made.cluster.create(
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "ann"}],
        }
    )


async def test_a_viewer_sees_the_namespaces_in_which_they_may_list() -> None:
    async with stage() as made:
        await grant(made, "red")
        viewer = await made.signed_in("ann-token")
        async with viewer.stream("/ui/stream/pods") as answer:
            [(_, document)] = await answer.until_event(1)
            assert list(document["pods"]) == ["red/r"]
        assert (await viewer.send("POST", "/ui/call/pods/echo", {})).json["pods"] == 1


async def test_requests_do_not_multiply_access_reviews(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    original = rights.review

    async def counted(client: ApiClient, *access: Any) -> bool:
        asked.append(access)
        return await original(client, *access)

    monkeypatch.setattr(rights, "review", counted)
    async with stage() as made:
        viewers = [await made.signed_in("ann-token") for _ in range(5)]
        await asyncio.gather(
            *(each.send("POST", "/ui/call/pods/echo", {}) for _ in range(3) for each in viewers),
        )
        first = len(asked)
        for _ in range(200):
            await viewers[0].send("POST", "/ui/call/pods/echo", {})
        # Once for the cluster, and once for each namespace.
        assert (first, len(asked)) == (4, 4)


AWAY = ConnectionFailed("Connection refused", sent=False)


@pytest.mark.parametrize(
    ("failure", "shown"),
    [
        (AWAY, ["red/r"]),
        (ApiError(503, "ServiceUnavailable", "starting"), ["red/r"]),
        (ApiError(401, "Unauthorized", "the token has expired"), []),
    ],
)
async def test_what_was_shown_stays_while_the_server_is_away_and_goes_with_a_refusal(
    monkeypatch: pytest.MonkeyPatch, failure: ClientError, shown: list[str]
) -> None:
    monkeypatch.setattr(rights, "_KEPT", 0.0)
    monkeypatch.setattr(rights, "_KEPT_WITHOUT_ANSWER", 0.0)
    async with stage() as made:
        await grant(made, "red")
        viewer = await made.signed_in("ann-token")
        async with viewer.stream("/ui/stream/pods") as answer:
            await answer.until_event(1)

            async def failing(*_: Any) -> bool:
                raise failure

            monkeypatch.setattr(rights, "review", failing)
            # Rights are looked at every second.
            while not any(event == "trouble" and str(failure) in said["text"] for event, said in answer.events):
                await asyncio.sleep(0.05)
            await asyncio.sleep(1.5)
            documents = [document for event, document in answer.events if event == "snapshot"]
            assert list(documents[-1]["pods"]) == shown
            monkeypatch.undo()
            monkeypatch.setattr(rights, "_KEPT", 0.0)
            while ("trouble", {"text": ""}) not in answer.events:
                await asyncio.sleep(0.05)
        monkeypatch.setattr(rights, "review", failing)
        # Somebody of whom nothing is known sees nothing.
        other = Sight({"pods": frozenset()})
        assert await rights.Rights(made.model).sight(made.identity("new", ANN), ("pods",)) == other


async def test_streams_end_with_their_token() -> None:
    async with stage() as made:
        viewer = await made.signed_in("ann-token")
        async with viewer.stream("/ui/stream/pods") as answer:
            await answer.until_event(1)
            made.revoked.add("ann-token")
            assert (await answer.until_event(10))[-1][0] == "over"
            assert answer.ended
        assert (await viewer.send("GET", "/ui/session")).status == 401


async def test_signing_out_ends_the_streams_of_the_session() -> None:
    async with stage() as made:
        viewer = await made.signed_in()
        async with viewer.stream("/ui/stream/pods") as answer:
            await answer.until_event(1)
            await viewer.send("DELETE", "/ui/session")
            assert (await answer.until_event(10))[-1][0] == "over"


async def test_a_thousand_streams_are_refused_and_leave_nothing_behind() -> None:
    async with stage(PageLimits(streams=8, streams_of_session=3)) as made:
        viewers = [await made.signed_in() for _ in range(4)]
        streams = [viewer.stream("/ui/stream/pods") for viewer in viewers for _ in range(250)]
        answers = [await each.__aenter__() for each in streams]
        await asyncio.gather(*(answer.until_event(1) for answer in answers))
        assert sum(answer.status == 200 for answer in answers) == 8
        assert {answer.status for answer in answers} == {200, 429}
        for each in streams:
            await each.__aexit__(None, None, None)
        async with viewers[0].stream("/ui/stream/pods") as answer:
            assert await answer.until_event(1)


async def test_errors_of_calls_are_texts_and_not_markup() -> None:
    async with stage() as made:
        viewer = await made.signed_in()
        answer = await viewer.send("POST", "/ui/call/pods/echo", {"fail": MARKUP})
        assert (answer.status, answer.header("content-type")) == (400, "application/json")
        assert answer.json == {"error": MARKUP}
        assert (await viewer.send("GET", "/ui/call/pods/echo")).status == 404
        assert (await viewer.send("POST", "/ui/call/pods/none", {})).status == 404
        assert (await viewer.send("GET", "/ui/stream/none")).status == 404
        assert (await viewer.send("GET", f"/ui/stream/pods?{'q=1&' * 30}")).status == 400


async def test_sessions_of_a_user_are_limited() -> None:
    async with stage(PageLimits(sessions_of_user=3)) as made:
        viewers = [await made.signed_in() for _ in range(5)]
        states = [(await each.send("GET", "/ui/session")).status for each in viewers]
        assert states == [401, 401, 200, 200, 200]


async def test_a_stream_tells_when_the_cluster_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as made:
        viewer = await made.signed_in()
        async with viewer.stream("/ui/stream/pods") as answer:
            await answer.until_event(1)
            monkeypatch.setattr(made.model, "troubles", lambda kinds: ["cannot watch pods: gone"])
            assert (await answer.until_event(2))[1] == ("trouble", {"text": "cannot watch pods: gone"})
            monkeypatch.setattr(made.model, "troubles", lambda kinds: [])
            assert (await answer.until_event(3))[2] == ("trouble", {"text": ""})


async def test_the_document_of_the_first_view_is_made_when_a_code_is_asked_for() -> None:
    async with stage() as made:
        feeds = made.page._streaming._feeds
        shown = {**OWN, "authorization": "Bearer ann-token"}
        code = (await Viewer(made.page).send("POST", "/ui/code", {}, headers=shown)).json["code"]
        warming = made.page._streaming._warming
        assert warming is not None
        await warming
        assert len(feeds) == 1
        viewer = Viewer(made.page)
        await viewer.sign_in(code=code)
        async with viewer.stream("/ui/stream/pods") as answer:
            # Who asks for the code sees what they may see, and no more.
            assert (await answer.until_event(1))[0] == ("snapshot", {"pods": {}})
            assert len(feeds) == 1


async def test_a_view_that_cannot_be_made_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as made:
        monkeypatch.setattr(Question, "objects", lambda *_: 1 / 0)
        viewer = await made.signed_in()
        warming = made.page._streaming._warming
        assert warming is not None
        await asyncio.wait([warming])
        assert isinstance(warming.exception(), ZeroDivisionError)
        while len(made.page._streaming._feeds):
            await asyncio.sleep(0.01)
        assert (await viewer.send("GET", "/ui/session")).status == 200
