"""The view to try manifests: what is found, planned and submitted, and what attackers cannot do with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dray.testing.cluster import LocalCluster
from dray.web.views import try_out
from tests.web.asgi import Answer, Viewer
from tests.web.test_page import MARKUP, Stage, grant
from tests.web.test_waiting import busy_stage, in_this_process

__all__ = ["in_this_process"]

EXAMPLES = Path(__file__).parents[2] / "examples"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: mine}
spec:
  containers: [{name: main, image: x}]
"""
CLAIMING = """
apiVersion: v1
kind: Pod
metadata: {name: mine}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: both}]
  containers: [{name: main, image: x, resources: {claims: [{name: gpu}]}}]
"""


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    async with LocalCluster() as cluster:
        made = Stage(cluster, views=[try_out.VIEW])
        try:
            yield made
        finally:
            await made.page.close()


async def send(viewer: Viewer, call: str, manifest: str, **members: Any) -> Answer:
    return await viewer.send("POST", f"/ui/call/try/{call}", {"manifest": manifest, **members})


@pytest.mark.usefixtures("in_this_process")
async def test_a_manifest_is_checked_and_planned() -> None:
    async with busy_stage(try_out.VIEW) as made:
        viewer = await made.signed_in()
        found = (await send(viewer, "check", CLAIMING)).json
        assert found["plan"]["verdict"] == "FitsWithChange"
        [pod] = found["plan"]["pods"]
        assert (pod["name"], pod["fits"]) == ("mine", False)
        found = (await send(viewer, "check", POD)).json
        assert (found["findings"], found["plan"]["verdict"], found["plan"]["pods"][0]["node"]) == ([], "Fits", "n1")
        found = (await send(viewer, "check", POD.replace("image", "imgae"))).json
        assert "did you mean image" in str(found["findings"])
        # A typo is refused by the server too, and nothing is stored.
        tried = (await send(viewer, "apply", POD.replace("image", "imgae"), dryRun=True)).json["objects"]
        assert "imgae" in tried[0]["problem"]


@pytest.mark.usefixtures("in_this_process")
async def test_text_is_never_taken_for_the_name_of_a_file() -> None:
    async with stage() as made:
        viewer = await made.signed_in()
        for text in ("/etc/passwd", "examples", "-", "kind: [", "a: &a [*a]", MARKUP, "\x00"):
            answer = await send(viewer, "check", text)
            assert answer.status == 200
            assert [each["rule"] for each in answer.json["findings"]] == ["unreadable"]
            assert "root:" not in answer.body.decode()
            assert (await send(viewer, "apply", text, dryRun=False)).status == 400


async def test_a_dry_run_stores_nothing_and_a_submission_does() -> None:
    async with stage() as made:
        viewer = await made.signed_in()
        row = {"kind": "Pod", "name": "mine", "line": 2, "namespace": "default", "outcome": "created"}
        assert (await send(viewer, "apply", POD, dryRun=True)).json == {"objects": [row]}
        assert await made.cluster.get("Pod", "mine") is None
        assert (await send(viewer, "apply", POD, dryRun=False)).json == {"objects": [row]}
        assert await made.cluster.get("Pod", "mine") is not None
        async with viewer.stream("/ui/stream/try?of=Pod/default/mine") as answer:
            [(_, shown)] = await answer.until_event(1)
            assert shown["pods"]["default/mine"]["waits"] is True
        again = (await send(viewer, "apply", POD, dryRun=True)).json["objects"]
        assert again[0]["outcome"] == "configured"
        elsewhere = (await send(viewer, "apply", POD, dryRun=True, namespace="none")).json["objects"]
        assert "not found" in elsewhere[0]["problem"]


async def test_a_viewer_submits_with_their_own_rights() -> None:
    async with stage() as made:
        await grant(made, "default")
        objects = (await send(await made.signed_in("ann-token"), "apply", POD, dryRun=False)).json["objects"]
        assert 'User "ann" cannot' in objects[0]["problem"]
        assert await made.cluster.get("Pod", "mine") is None


async def test_what_is_too_large_or_wrong_is_refused() -> None:
    async with stage() as made:
        viewer = await made.signed_in()
        for call in ("check", "apply"):
            answer = await send(viewer, call, "#" * (256 * 1024 + 1), dryRun=False)
            assert (answer.status, "more than 256 KiB" in answer.json["error"]) == (400, True)
        many = "---".join([POD] * 101)
        assert "more than 100 objects" in (await send(viewer, "apply", many, dryRun=False)).json["error"]
        assert (await send(viewer, "apply", POD)).status == 400
        assert (await send(viewer, "apply", "", dryRun=False)).status == 400
        unknown = (await send(viewer, "apply", "kind: Nothing\napiVersion: example.com/v1", dryRun=False)).json
        assert unknown["objects"][0]["problem"] == "the server does not have Nothing in example.com/v1"


def test_examples_have_a_title_and_say_what_they_are() -> None:
    found = try_out._examples(EXAMPLES)
    assert [each["title"] for each in found][:2] == ["One GPU", "All GPUs of a machine"]
    assert all(each["about"].endswith(".") for each in found)
