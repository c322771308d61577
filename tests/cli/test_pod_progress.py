"""What a pod waits for and how it ended, from its status."""

from __future__ import annotations

from typing import Any

import pytest

from dray.answers.explaining.pod_progress import cannot_start, exit_status, has_started, termination_cause, waits_for


def pod(state: dict[str, Any] | None = None, *, node: str = "", **status: Any) -> dict[str, Any]:
    if state is not None:
        status["containerStatuses"] = [{"name": "main", "state": state}]
    return {"metadata": {"name": "p"}, "spec": {"nodeName": node}, "status": status}


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no GPU is free"}


@pytest.mark.parametrize(
    ("given", "warning", "said"),
    [
        (pod(), "", "waiting for the scheduler"),
        (pod(conditions=[UNSCHEDULABLE]), "", "waiting: no GPU is free"),
        (pod({"waiting": {"reason": "ContainerCreating"}}, node="n"), "", "on node n: ContainerCreating"),
        (pod({"waiting": {"reason": "ErrImagePull", "message": "gone"}}, node="n"), "", "on node n: gone"),
        (pod({"waiting": {"reason": "ContainerCreating"}}, node="n"), "no driver", "on node n: no driver"),
        (pod(node="n"), "", "on node n: not started yet"),
    ],
)
def test_what_it_waits_for(given: dict[str, Any], warning: str, said: str) -> None:
    assert waits_for(given, warning) == said
    assert not has_started(given)


@pytest.mark.parametrize(
    ("given", "status", "why"),
    [
        (pod({"terminated": {"exitCode": 7, "reason": "Error"}}, phase="Failed"), 7, ""),
        (pod({"terminated": {"exitCode": 0}}, phase="Succeeded"), 0, ""),
        (pod({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, phase="Failed"), 137, "OOMKilled"),
        (pod(phase="Failed", reason="Evicted", message="low on memory"), 1, "Evicted: low on memory"),
        (
            pod(phase="Failed", conditions=[{"type": "DisruptionTarget", "status": "True", "message": "preempted"}]),
            1,
            "preempted",
        ),
    ],
)
def test_how_it_ended(given: dict[str, Any], status: int, why: str) -> None:
    assert has_started(given)
    assert (exit_status(given), termination_cause(given)) == (status, why)


def test_what_waiting_does_not_mend() -> None:
    assert cannot_start(pod({"waiting": {"reason": "RunContainerError"}}, node="n"))
    assert not cannot_start(pod({"waiting": {"reason": "ImagePullBackOff"}}, node="n"))
