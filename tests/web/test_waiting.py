"""The view of what waits: rows with reasons, explanations and plans, and what a viewer with few rights gets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dray.scheduling.scheduler import Options
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from dray.web import answerer, desk
from dray.web.desk import DeskLimits
from dray.web.page import PageLimits
from dray.web.view import View
from dray.web.views import waiting
from tests.web.asgi import Viewer
from tests.web.test_page import MARKUP, Stage, grant

GPUS = ("gpu-0", "gpu-1")


@asynccontextmanager
async def busy_stage(view: View = waiting.VIEW, limits: PageLimits | None = None) -> AsyncIterator[Stage]:
    """Two GPUs, of which the pod `runs` has both; `waits` waits for them."""
    there = [
        objects.node("n1"),
        objects.resource_slice("n1", *GPUS, nodeName="n1"),
        objects.device_class("gpu"),
        objects.claim_template("both", objects.request(count=2)),
    ]
    async with LocalCluster(controllers=["resourceclaim"], scheduler=Options(), objects=there) as cluster:
        made = Stage(cluster, limits, views=[view])
        try:
            await cluster.create(objects.pod("runs", templates=["both"], activeDeadlineSeconds=3600))
            await cluster.eventually(lambda: _has_node(cluster, "runs"))
            await cluster.create(objects.pod("waits", templates=["both"]))
            await cluster.eventually(lambda: _was_tried(cluster, "waits"))
            yield made
        finally:
            await made.page.close()


async def _has_node(cluster: LocalCluster, name: str) -> bool:
    return bool(((await cluster.get("Pod", name)) or {})["spec"].get("nodeName"))


async def _was_tried(cluster: LocalCluster, name: str) -> bool:
    conditions = ((await cluster.get("Pod", name)) or {}).get("status", {}).get("conditions") or ()
    return any(each.get("reason") == "Unschedulable" for each in conditions)


async def rows(viewer: Viewer) -> dict[str, Any]:
    async with viewer.stream("/ui/stream/waiting") as answer:
        [(_, found), *_] = await answer.until_event(1)
        return dict(found["waiting"])


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions are answered here: to start a process takes a second."""

    class Here:
        async def ask(self, asked: answerer.Asked) -> answerer.Answered:
            return await asyncio.to_thread(answerer.answered, asked)

        async def end(self) -> None:
            pass

        def leave(self) -> None:
            pass

    async def start() -> Any:
        return Here()

    monkeypatch.setattr(desk._Answerer, "start", start)


@pytest.mark.usefixtures("in_this_process")
async def test_a_pod_that_waits_has_a_reason_and_an_explanation_and_help() -> None:
    async with busy_stage() as made:
        viewer = await made.signed_in()
        found = await rows(viewer)
        # No kubelet runs it.
        assert (found["pod/default/runs"]["state"], found["pod/default/runs"]["reason"]) == (
            "starting",
            "on node n1: not started yet",
        )
        row = found["pod/default/waits"]
        assert (row["state"], row["wants"]) == ("waiting", ["2 × gpu"])
        assert "needs 2, 0 available" in row["reason"]
        asked = {"name": "pod/default/waits"}
        why = (await viewer.send("POST", "/ui/call/waiting/explain", asked)).json
        assert why["fits"] is False
        assert "would fit if freed: default/runs-template-0" in str(why["trees"])
        help_ = (await viewer.send("POST", "/ui/call/waiting/help", asked)).json
        assert help_["verdict"] == "FitsWithChange"
        assert any("runs" in each["text"] for each in help_["suggestions"])
        [start] = help_["pods"]
        # The pod that runs has a time limit.
        assert start["earliest"] == start["latest"]


@pytest.mark.usefixtures("in_this_process")
async def test_what_does_not_wait_has_no_explanation() -> None:
    async with busy_stage() as made:
        viewer = await made.signed_in()
        for name in ("pod/default/none", MARKUP, ""):
            answer = await viewer.send("POST", "/ui/call/waiting/explain", {"name": name})
            assert (answer.status, answer.json) == (400, {"error": "it does not wait any more, or is gone"})
        assert (await viewer.send("POST", "/ui/call/waiting/explain", {"name": 7})).status == 400


@pytest.mark.usefixtures("in_this_process")
async def test_a_viewer_who_may_list_pods_alone_is_told_what_they_may_not_read() -> None:
    async with busy_stage() as made:
        await grant(made, "default")
        viewer = await made.signed_in("ann-token")
        asked = {"name": "pod/default/waits"}
        assert sorted(await rows(viewer)) == ["pod/default/runs", "pod/default/waits"]
        answer = await viewer.send("POST", "/ui/call/waiting/explain", asked)
        assert answer.status == 400
        assert "ann" in answer.json["error"]
        assert "cannot list" in answer.json["error"]


async def test_a_viewer_who_may_not_list_all_pods_is_not_told_that_there_are_none() -> None:
    async with busy_stage() as made:
        for token, partial in (("ann-token", True), ("admin-token", False)):
            async with (await made.signed_in(token)).stream("/ui/stream/waiting") as answer:
                [(_, found), *_] = await answer.until_event(1)
                assert found.get("partial", False) is partial


async def test_pods_of_a_group_are_one_row() -> None:
    async with LocalCluster() as cluster:
        made = Stage(cluster, views=[waiting.VIEW])
        try:
            await cluster.create(objects.pod_group("gang", minCount=2))
            for number in range(2):
                await cluster.create(objects.pod(f"p{number}", schedulingGroup={"podGroupName": "gang"}))
            await cluster.create(objects.pod("gated", schedulingGates=[{"name": "example.com/later"}]))
            found = await rows(await made.signed_in())
            group = found["group/scheduling.k8s.io/default/gang"]
            assert (group["kind"], group["waiting"], group["pods"]) == ("group", 2, 2)
            assert group["reason"] == "its scheduler has not tried it yet"
            assert found["pod/default/gated"]["reason"] == "held by scheduling gates: example.com/later"
        finally:
            await made.page.close()


async def test_a_process_answers_and_one_that_takes_too_long_is_ended() -> None:
    asked = {"name": "pod/default/waits"}
    # To start a process takes long on a machine with too much to do.
    async with busy_stage(limits=PageLimits(desk=DeskLimits(seconds=600.0))) as made:
        viewer = await made.signed_in()
        answer = await viewer.send("POST", "/ui/call/waiting/explain", asked)
        assert (answer.status, answer.json.get("fits")) == (200, False), answer.body
    async with busy_stage(limits=PageLimits(desk=DeskLimits(seconds=0.0))) as made:
        answer = await (await made.signed_in()).send("POST", "/ui/call/waiting/explain", asked)
        assert answer.status == 400
        assert "no answer within" in answer.json["error"]


async def test_questions_of_one_viewer_are_limited() -> None:
    async with busy_stage(limits=PageLimits(desk=DeskLimits(questions_of_viewer=0))) as made:
        answer = await (await made.signed_in()).send("POST", "/ui/call/waiting/explain", {"name": "pod/default/waits"})
        assert (answer.status, "asked much at once" in answer.json["error"]) == (400, True)
