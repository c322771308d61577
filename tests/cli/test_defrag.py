"""`dray defrag` against a cluster with a scheduler and controllers: what it plans is what happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dray.scheduling.model.making_room import ANNOTATION
from dray.scheduling.scheduler import Options
from dray.testing import objects
from dray.testing.api_endpoint import ApiEndpoint
from dray.testing.cluster import LocalCluster
from tests import gpus

Dray = Callable[..., Result]
CONTROLLERS = ("resourceclaim", "replicaset", "garbage-collector", "disruption", "podgroup-protection")


class Lab:
    """Two nodes with four GPUs, one of each in use by a pod that a ReplicaSet made."""

    def __init__(self, cluster: LocalCluster, run: Dray, kubeconfig: Path) -> None:
        self.cluster = cluster
        self._run = run
        self._where = ("--kubeconfig", str(kubeconfig))

    async def defrag(self, *arguments: str, stdin: str | None = None) -> tuple[int, str]:
        result = await asyncio.to_thread(self._run, "defrag", *arguments, *self._where, stdin=stdin)
        return result.exit_code, result.output

    async def pods(self) -> dict[str, Any]:
        return {each["metadata"]["name"]: each for each in await self.cluster.list("Pod")}

    async def places(self) -> dict[str, str]:
        return {name: each["spec"].get("nodeName", "") for name, each in (await self.pods()).items()}

    async def bound(self, number: int) -> bool:
        places = await self.places()
        return len(places) >= number and all(places.values())

    async def marks(self) -> list[str]:
        pods = (await self.pods()).values()
        return [text for each in pods if (text := each["metadata"].get("annotations", {}).get(ANNOTATION))]


def small(name: str, **more: Any) -> Any:
    made = gpus.pod(name, cpu="2", templates=["one"], labels={"app": "small"}, **more)
    template = {"metadata": {"labels": {"app": "small"}}, "spec": made["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "small"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def lab(run: Dray, tmp_path: Path) -> AsyncIterator[Lab]:
    there = [each for name in "ab" for each in (objects.node(name, cpu="8"), gpus.slice_of(name, 4))]
    numbers = {"one": 1, "two": 2, "four": 4}
    templates = [objects.claim_template(name, objects.request(count=n)) for name, n in numbers.items()]
    documents = [*there, gpus.device_class("gpu"), *templates]
    async with (
        LocalCluster(controllers=CONTROLLERS, scheduler=Options(), objects=documents) as cluster,
        ApiEndpoint(cluster.application) as endpoint,
    ):
        made = Lab(cluster, run, endpoint.write_kubeconfig(tmp_path / "kubeconfig"))
        await cluster.create(small("small"))
        await cluster.eventually(lambda: made.bound(2))
        assert sorted((await made.places()).values()) == ["a", "b"]
        yield made


async def refused(lab: Lab, name: str) -> bool:
    pod = (await lab.pods())[name]
    return any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions") or ())


async def test_nobody_waits(lab: Lab) -> None:
    assert await lab.defrag() == (0, "no pod is pending\n")
    assert await lab.defrag("small") == (2, "small is not pending\n")


async def test_a_plan_changes_nothing_and_is_carried_out_when_asked(lab: Lab) -> None:
    await lab.cluster.create(gpus.pod("large", templates=["four"]))
    await lab.cluster.eventually(lambda: refused(lab, "large"))
    before = await lab.places()
    status, told = await lab.defrag()
    lines = told.splitlines()
    assert (status, lines[0]) == (0, "Pod default/large fits after 1 move")
    assert lines[1].startswith("  move pod default/small-")
    assert "then pod default/large goes to" in lines[2]
    status, text = await lab.defrag("pod/large", "--plan", "-o", "json")
    plan = json.loads(text)
    assert (status, plan["fits"], len(plan["moves"])) == (0, True, 1)
    assert await lab.places() == before
    (move,) = plan["moves"]
    # Who does not say yes has nothing done.
    assert (await lab.defrag("--apply", stdin="n\n"))[0] == 1
    assert await lab.places() == before
    status, told = await lab.defrag("--apply", stdin="y\n")
    assert status == 0, told
    assert f"pod default/{move['pod']} evicted" in told
    assert "Pod default/large is placed" in told
    await lab.cluster.eventually(lambda: lab.bound(3))
    after = await lab.places()
    assert after["large"] == move["from"]
    assert {node for name, node in after.items() if name != "large"} == {move["to"]}
    assert await lab.marks() == []


async def test_a_gang_gets_its_places(lab: Lab) -> None:
    topology = {"topology": [{"key": "kubernetes.io/hostname"}]}
    await lab.cluster.create(objects.pod_group("train", minCount=2, schedulingConstraints=topology))
    for number in range(2):
        group = {"podGroupName": "train"}
        await lab.cluster.create(gpus.pod(f"w{number}", templates=["two"], schedulingGroup=group))
    await lab.cluster.eventually(lambda: refused(lab, "w0"))
    status, told = await lab.defrag("podgroup/train", "--apply", "--yes")
    assert (status, told.splitlines()[0]) == (0, "PodGroup default/train fits after 1 move"), told
    await lab.cluster.eventually(lambda: lab.bound(4))
    places = await lab.places()
    assert places["w0"] == places["w1"]
    assert {node for name, node in places.items() if name.startswith("small")} == {"a", "b"} - {places["w0"]}


async def test_a_budget_that_forbids_it_is_respected(lab: Lab) -> None:
    await lab.cluster.create(objects.pod_disruption_budget("all", {"app": "small"}, minAvailable=2))

    async def counted() -> bool:
        budget = await lab.cluster.get("PodDisruptionBudget", "all")
        return bool(budget and (budget.get("status") or {}).get("expectedPods"))

    await lab.cluster.eventually(counted)
    await lab.cluster.create(gpus.pod("large", templates=["four"]))
    await lab.cluster.eventually(lambda: refused(lab, "large"))
    status, told = await lab.defrag()
    assert status == 1
    assert told.startswith("Pod default/large does not fit: no pods that could be moved")


async def test_without_a_scheduler_that_keeps_the_place_nobody_is_evicted(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.cli.moving._KEPT_WITHIN", 0.5)
    await lab.cluster.create(gpus.pod("large", templates=["four"], schedulerName="other"))

    async def has_claims() -> bool:
        return bool((await lab.pods())["large"].get("status", {}).get("resourceClaimStatuses"))

    await lab.cluster.eventually(has_claims)
    before = await lab.places()
    status, told = await lab.defrag("--apply", "--yes", "--scheduler-name", "other")
    assert status == 1
    assert "error: no pod was evicted" in told
    assert await lab.places() == before
    assert await lab.marks() == []
