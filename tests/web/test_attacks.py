"""Attacks on the page with all its views: foreign requests, few rights, many requests, slow readers, leaks."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import threading
from typing import Any

import pytest

from dray.api.catalogue import built_in
from dray.api.objects import spec_of
from dray.client.api import ApiClient
from dray.server.authorization import User
from dray.testing import objects
from dray.web import rights, streaming
from dray.web.page import PageLimits
from dray.web.views import VIEWS, devices
from tests.web.asgi import OWN, Viewer
from tests.web.stages import ViewStage, view_stage
from tests.web.test_devices_view import hold, world

NAMESPACES = ("red", "green", "blue")
KINDS = {"pods": ("v1", "Pod"), "resourceclaims.resource.k8s.io": ("resource.k8s.io/v1", "ResourceClaim")}


async def fill(stage: ViewStage) -> None:
    """A pod and a claim in every namespace, whose names occur nowhere else."""
    for number, namespace in enumerate(NAMESPACES):
        await stage.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        await stage.cluster.create(objects.pod(f"pod-of-{namespace}", namespace=namespace))
        await hold(stage, f"claim-of-{namespace}", f"gpu-{number}", pool="a", namespace=namespace)


@pytest.mark.parametrize(
    "foreign",
    [
        {},
        {**OWN, "sec-fetch-site": "cross-site"},
        {**OWN, "origin": "https://evil.example"},
        {**OWN, "host": "rebound.example:8100"},
        {"sec-fetch-site": "same-origin", "content-type": "text/plain"},
    ],
)
async def test_another_site_takes_no_action(foreign: dict[str, str]) -> None:
    async with view_stage(*world()) as stage:
        viewer = await stage.signed_in()
        body = {"action": "cordon", "name": "a", "dryRun": False}
        answer = await viewer.send("POST", "/ui/call/devices/act", body, headers=foreign)
        assert answer.status == 403
        assert not answer.header("access-control-allow-origin")
        assert not spec_of(await stage.cluster.get("Node", "a", namespace="") or {}).get("unschedulable")


@pytest.mark.parametrize("seed", range(3))
async def test_a_viewer_sees_exactly_what_access_reviews_allow(seed: int) -> None:
    chance = random.Random(seed)
    async with view_stage(*world()) as stage:
        await fill(stage)
        for resource in KINDS:
            for namespace in chance.sample(NAMESPACES, chance.randint(0, 2)):
                await stage.grant("ann", ["list"], resource, namespace)
        client = stage.cluster.client_of(User("ann", ("system:authenticated",)))
        allowed = {
            (resource, namespace)
            for resource, kind in KINDS.items()
            for namespace in NAMESPACES
            if await rights.review(client, "list", built_in(*kind), namespace)
        }
        viewer = await stage.signed_in("ann")
        texts = {view.name: json.dumps(await stage.document(viewer, view.name)) for view in VIEWS}
        claims = await stage.document(viewer, "devices?show=claims")
        assert set(claims["claims"]) == {
            f"{namespace}/claim-of-{namespace}" for resource, namespace in allowed if resource != "pods"
        }
        for resource, namespace in allowed:
            assert resource != "pods" or f"pod-of-{namespace}" in texts["waiting"]
        for namespace in NAMESPACES:
            for resource, name in zip(KINDS, (f"pod-of-{namespace}", f"claim-of-{namespace}"), strict=True):
                if (resource, namespace) not in allowed:
                    assert not [view for view, text in texts.items() if name in text], (seed, name)


async def test_documents_that_name_what_is_forbidden_open_nothing() -> None:
    async with view_stage(*world()) as stage:
        await fill(stage)
        viewer = await stage.signed_in("ann")
        document = await stage.document(viewer, "devices?show=claims&open=red/claim-of-red&q=claim")
        assert (document["claims"], "open" in document) == ({}, False)
        document = await stage.document(viewer, "devices?open=gpu.example.com/a/gpu-0")
        assert "open" not in document
        answer = await stage.call(viewer, "devices", "match", selector="true")
        assert (answer["total"], answer["devices"]) == (0, {})


async def test_a_thousand_requests_cause_few_access_reviews(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    original = rights.review

    async def counted(client: ApiClient, *access: Any) -> bool:
        asked.append(access)
        return await original(client, *access)

    monkeypatch.setattr(rights, "review", counted)
    async with view_stage(*world()) as stage:
        await fill(stage)
        viewer = await stage.signed_in("ann")
        for number in range(250):
            for target in ("pod", "claim", "node", "device"):
                body = {"target": target, "name": f"gpu.example.com/a/{number}", "namespace": f"ns-{number}"}
                await stage.call(viewer, "devices", "offers", **body)
        several = len(asked)
        for number in range(50):
            for namespace in NAMESPACES:
                body = {"action": "delete-pod", "name": f"pod-{number}", "namespace": namespace}
                await stage.refusal(viewer, "devices", "act", **body)
        # Of each kind once, and once in each namespace that has objects of it: never for a name.
        assert several <= 40
        assert len(asked) - several <= len(NAMESPACES)
        assert not [access for access in asked if access[3:] and access[3]]


async def test_credentials_are_in_no_log_and_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with view_stage(*world()) as stage:
        viewer = await stage.signed_in("very-secret-token")
        secret = viewer.cookie.partition("=")[2]
        code = stage.page.codes.issue(stage.identify({}, "other-secret-token") or pytest.fail("no user"))
        other = Viewer(stage.page)
        await other.sign_in(code=code)
        answers = [
            await viewer.send("GET", "/ui/session"),
            await viewer.send("GET", "/ui/stream/none"),
            await viewer.send("POST", "/ui/call/devices/match", {"selector": "device.none"}),
            await viewer.send("POST", "/ui/call/devices/act", {"action": 7}),
            await Viewer(stage.page).sign_in(token=""),
        ]
        for view in VIEWS:
            await stage.document(viewer, view.name)
        texts = caplog.text + "".join(answer.body.decode() for answer in answers)
        # The name of a user of the stage is the token.
        texts = texts.replace('"user":"very-secret-token"', "")
        for hidden in (secret, viewer.key, code, code.replace("-", ""), other.cookie.partition("=")[2]):
            assert hidden not in texts
        assert "very-secret-token" not in "".join(answer.body.decode() for answer in answers[1:])


async def test_every_kind_of_answer_forbids_frames_and_foreign_content() -> None:
    async with view_stage(*world()) as stage:
        viewer = await stage.signed_in()
        answers = [
            await viewer.send("GET", "/ui/devices"),
            await viewer.send("POST", "/ui/call/devices/match", {"selector": "true"}),
            await viewer.send("POST", "/ui/call/devices/act", {}),
            await viewer.send("GET", "/ui/session", headers={}),
            await viewer.send("PUT", "/ui/static/main.js"),
        ]
        async with viewer.stream("/ui/stream/devices") as answer:
            await answer.until_event(1)
            answers.append(answer)
        for answer in answers:
            assert answer.header("x-frame-options") == "DENY"
            assert "frame-ancestors 'none'" in answer.header("content-security-policy")
            assert answer.header("cross-origin-resource-policy") == "same-origin"
            assert answer.header("referrer-policy") == "no-referrer"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"selector": "' + b"x" * 2_000_000 + b'"}', 413),
        (b'{"selector": ' + b"[" * 100_000, 400),
        (b'{"selector": 7}', 400),
        (b'{"selector": "\xff"}', 400),
        (b"[]", 400),
        (json.dumps({"selector": "(" * 5000}).encode(), 200),
        (json.dumps({"selector": "!" * 9000 + "true"}).encode(), 200),
    ],
)
async def test_huge_and_broken_bodies_are_refused(body: bytes, status: int) -> None:
    async with view_stage(*world()) as stage:
        viewer = await stage.signed_in()
        answer = await viewer.send("POST", "/ui/call/devices/match", body)
        assert answer.status == status, answer.body[:300]
        assert (await viewer.send("GET", "/ui/session")).status == 200


async def test_an_action_after_the_token_was_revoked_is_refused() -> None:
    async with view_stage(*world()) as stage:
        viewer = await stage.signed_in()
        async with viewer.stream("/ui/stream/devices") as answer:
            await answer.until_event(1)
            stage.revoked.add("admin")
            assert (await answer.until_event(1000))[-1][0] == "over"
        body = {"action": "cordon", "name": "a", "dryRun": False}
        assert (await viewer.send("POST", "/ui/call/devices/act", body)).status == 401
        assert not spec_of(await stage.cluster.get("Node", "a", namespace="") or {}).get("unschedulable")


async def test_a_thousand_streams_leave_the_page_ready() -> None:
    async with view_stage(*world(), limits=PageLimits(streams=60)) as stage:
        viewers = [await stage.signed_in("admin") for _ in range(20)]
        streams = [viewers[number % 20].stream(f"/ui/stream/devices?q={number}") for number in range(1000)]
        answers = [await each.__aenter__() for each in streams]
        await asyncio.gather(*(answer.until_event(1) for answer in answers))
        assert sum(answer.status == 200 for answer in answers) == 60
        assert {answer.status for answer in answers} == {200, 429}
        found = await stage.call(viewers[0], "devices", "match", selector="true")
        assert found["count"] == 7
        assert (await viewers[0].send("GET", "/ui")).status == 200
        for each in streams:
            await each.__aexit__(None, None, None)


async def test_a_reader_that_does_not_read_is_cut_off_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "_STALLED", 0.2)
    async with view_stage(*world()) as stage:
        slow, quick = await stage.signed_in(), await stage.signed_in()
        never, began = asyncio.Event(), asyncio.Event()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                began.set()
                await never.wait()

        async def receive() -> Any:
            await never.wait()

        shown = {**OWN, "cookie": slow.cookie, "x-dray-key": slow.key}
        headers = [(name.encode(), value.encode()) for name, value in shown.items()]
        scope = {"type": "http", "method": "GET", "path": "/ui/stream/devices", "query_string": b"", "scheme": "http"}
        host = (b"host", b"127.0.0.1:8100")
        reading = asyncio.create_task(stage.page({**scope, "headers": [host, *headers]}, receive, send))
        await began.wait()
        async with quick.stream("/ui/stream/devices") as answer:
            await answer.until_event(1)
            await stage.cluster.create(objects.claim("new"))
            await stage.cluster.create(objects.resource_slice("c", "gpu-9", nodeName="b"))
            assert "gpu-9" in str(await answer.until_event(2))
        await reading


async def test_documents_that_nobody_looks_at_any_more_are_few() -> None:
    async with view_stage(*world()) as stage:
        viewer = await stage.signed_in()
        feeds = stage.page._streaming._feeds
        for number in range(60):
            await stage.document(viewer, f"devices?q={number}")
        # A few for whoever loads the page again; each of them is made anew with every change.
        assert len(feeds) <= 8
        async with viewer.stream("/ui/stream/devices?q=kept") as answer:
            await answer.until_event(1)
            for number in range(20):
                await stage.document(viewer, f"devices?q={number}")
            await stage.cluster.create(objects.resource_slice("c", "kept", nodeName="b"))
            assert "kept" in str((await answer.until_event(2))[1])
        assert len(feeds) <= 8


async def test_rights_that_are_taken_away_end_what_a_stream_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "_KEPT", 0.1)
    async with view_stage(*world()) as stage:
        await fill(stage)
        await stage.grant("ann", ["list"], "pods", "red")
        viewer = await stage.signed_in("ann")
        async with viewer.stream("/ui/stream/waiting") as answer:
            assert "pod-of-red" in str((await answer.until_event(1))[0])
            binding = built_in("rbac.authorization.k8s.io/v1", "RoleBinding")
            await stage.cluster.client.delete(binding, "ann-list-pods", namespace="red")
            event, document = (await answer.until_event(2))[1]
            assert (event, document["waiting"]) == ("snapshot", {})
            await stage.cluster.create(objects.pod("later", namespace="red"))
            await asyncio.sleep(1.5)
            assert "later" not in answer.body.decode()


async def test_what_many_viewers_match_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()
    original = devices._states

    def noted(question: Any) -> Any:
        threads.add(threading.current_thread())
        return original(question)

    monkeypatch.setattr(devices, "_states", noted)
    async with view_stage(*world()) as stage:
        viewer = await stage.signed_in()
        await stage.call(viewer, "devices", "match", selector="true")
        assert threads
        assert threading.main_thread() not in threads


async def test_questions_about_pods_of_others_tell_nothing_about_them() -> None:
    async with view_stage(*world()) as stage:
        await fill(stage)
        await stage.grant("ann", ["list"], "pods", "red")
        viewer = await stage.signed_in("ann")
        for call in ("explain", "help"):
            hidden = await stage.refusal(viewer, "waiting", call, name="pod/green/pod-of-green")
            missing = await stage.refusal(viewer, "waiting", call, name="pod/green/none")
            assert (hidden.status, hidden.body) == (missing.status, missing.body)
        # A plan for a namespace of others is made from what the viewer may list, which is too little.
        manifest = json.dumps(objects.pod("x", namespace="green"))
        checked = await stage.call(viewer, "try", "check", manifest=manifest, namespace="green")
        assert "cannot list resource" in checked["unplanned"]
        assert "plan" not in checked
        assert "pod-of-green" not in str(checked)
        dry_run = await stage.call(viewer, "try", "apply", manifest=manifest, namespace="green", dryRun=True)
        assert "forbidden" in dry_run["objects"][0]["problem"]


async def test_calls_of_one_user_leave_room_for_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()
    original = devices._answer

    def slow(*given: Any) -> Any:
        may_end.wait(60)
        return original(*given)

    async with view_stage(*world(), limits=PageLimits(calls_of_user=6)) as stage:
        greedy, other = await stage.signed_in("bob"), await stage.signed_in()
        monkeypatch.setattr(devices, "_answer", slow)
        asking = [
            asyncio.create_task(greedy.send("POST", "/ui/call/devices/match", {"selector": "true"})) for _ in range(20)
        ]
        await asyncio.sleep(0.2)
        monkeypatch.setattr(devices, "_answer", original)
        assert (await stage.call(other, "devices", "match", selector="true"))["total"] == 7
        may_end.set()
        found = [(answer.status, answer.json.get("error", "")) for answer in await asyncio.gather(*asking)]
        # Four are evaluated one after the other; two more were looked at and 14 were not.
        assert sorted(status for status, _ in found) == [200] * 4 + [400] * 2 + [429] * 14
        assert {text for status, text in found if status == 400} == {
            "other selectors of yours are being evaluated; try again in a moment"
        }
