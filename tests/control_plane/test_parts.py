"""A part of the control plane that fails is started again by itself, and the others do not notice."""

import asyncio
import logging

import pytest
from prometheus_client import CollectorRegistry

from dray.client.retries import Backoff
from dray.control_plane import parts as plane_parts
from dray.controllers import registry
from dray.testing.cluster import LocalCluster, kind_of

PODS = kind_of("Pod")


class Failing:
    """A controller that fails as often as it is told to, and then notes the pods it sees."""

    failures = 0
    made = 0

    def __init__(self, environment):
        type(self).made += 1
        self.seen = []
        environment.informers.of(PODS).add_handler(lambda change: self.seen.append(change.key))
        type(self).last = self

    async def run(self):
        if type(self).made <= type(self).failures:
            raise ZeroDivisionError("of nobody")
        await asyncio.Event().wait()


@pytest.fixture
def failing(monkeypatch):
    Failing.failures, Failing.made = 2, 0
    monkeypatch.setattr(registry, "CONTROLLERS", {**registry.CONTROLLERS, "failing": f"{__name__}:Failing"})
    monkeypatch.setattr(plane_parts, "_BACKOFF", Backoff(first=0.01, longest=0.05))
    return Failing


def pod(name):
    spec = {"containers": [{"name": "c", "image": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def up(plane):
    return {
        part.name: value
        for part in plane.parts
        for value in [plane.metrics()[0].get_sample_value("dray_part_up", {"part": part.name})]
    }


async def test_a_part_that_fails_is_started_again_by_itself(failing, caplog):
    with caplog.at_level(logging.ERROR):
        async with LocalCluster(controllers=["serviceaccount", "failing"]) as cluster:
            await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})

            async def worked():
                return failing.made == 3 and await cluster.get("ServiceAccount", "default", namespace="other")

            await cluster.eventually(worked)
            assert up(cluster.plane) == {"serviceaccount": 1, "failing": 1}
            failed = {part.name: part.restarts for part in cluster.plane.parts}
            assert failed == {"serviceaccount": 0, "failing": 2}
    lines = [text for text in caplog.messages if "started again" in text]
    assert len(lines) == 2
    assert "failing failed and is started again in" in lines[0]
    assert "ZeroDivisionError: of nobody" in lines[0]


async def test_only_the_part_at_work_is_told_of_changes(failing):
    async with LocalCluster(controllers=["failing"]) as cluster:
        firsts = []

        async def thrice():
            if failing.last not in firsts:
                firsts.append(failing.last)
            return failing.made == 3

        await cluster.eventually(thrice)
        await cluster.create(pod("p"))

        async def seen():
            return failing.last.seen

        assert await cluster.eventually(seen) == [("default", "p")]
        assert not [each for each in firsts if each is not failing.last and each.seen]


async def test_while_it_does_not_work_its_problem_is_known(failing, monkeypatch):
    failing.failures = 1000
    monkeypatch.setattr(plane_parts, "_BACKOFF", Backoff(first=30, longest=30))
    async with LocalCluster(controllers=["failing", "serviceaccount"]) as cluster:

        async def problem():
            return cluster.plane.parts[0].problem

        assert await cluster.eventually(problem) == "ZeroDivisionError: of nobody"
        assert up(cluster.plane) == {"failing": 0, "serviceaccount": 1}


def test_a_registry_is_not_shared_between_a_part_and_its_successor():
    made = []

    def make(metrics):
        made.append(metrics)

    part = plane_parts.Part("p", make, None, changed=lambda: None)
    part.prepare()
    part.prepare()
    assert len({id(each) for each in made}) == 2
    assert all(isinstance(each, CollectorRegistry) for each in made)
