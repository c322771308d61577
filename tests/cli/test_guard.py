"""`dray scheduler` and `dray controllers` beside those of Kubernetes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dray.cli import guard
from dray.client import election
from dray.client.clock import micro_timestamp
from dray.client.election import ComponentLease
from dray.client.events import EventRecorder
from dray.controllers.registry import CONTROLLERS
from dray.testing.cluster import LocalCluster
from tests.cli.running import running
from tests.virtual_time import VirtualTime

Dray = Callable[..., Result]
LONG_AGO = "2020-01-01T00:00:00.000000Z"


def lease(name: str, renewed: str = "") -> dict[str, Any]:
    renewed = renewed or micro_timestamp(datetime.now(UTC))
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"holderIdentity": "master-1", "leaseDurationSeconds": 24 * 3600, "renewTime": renewed},
    }


@pytest.fixture
def apply(run: Dray, config: Path) -> Callable[[dict[str, Any]], None]:
    def apply_one(document: dict[str, Any]) -> None:
        result = run("apply", "-f", "-", "--kubeconfig", str(config), stdin=json.dumps(document))
        assert result.exit_code == 0, result.output

    return apply_one


def test_a_scheduler_of_the_same_name_does_not_start(config: Path, apply: Callable[[dict[str, Any]], None]) -> None:
    apply(lease("kube-scheduler"))
    with running("scheduler", "--kubeconfig", str(config)) as process:
        assert process.end() == (
            1,
            "error: kube-scheduler is running: master-1 renews the lease kube-system/kube-scheduler. Both would place "
            "the pods of default-scheduler: choose another --scheduler-name, or stop it, or use --force.\n",
        )
    with running("scheduler", "--kubeconfig", str(config), "--force") as process:
        assert process.line().startswith("Scheduling the pods of default-scheduler ")
        assert process.line().startswith("leads by lease ")


def test_there_is_nothing_to_guard_against_where_names_or_leases_differ() -> None:
    assert guard.of_scheduler("default-scheduler", "kube-system/dray-scheduler", force=False) is not None
    assert guard.of_scheduler("default-scheduler", "", force=False) is not None
    assert guard.of_scheduler("dray", "kube-system/dray-scheduler", force=False) is None
    # Those who want the same lease do not work at the same time.
    assert guard.of_scheduler("default-scheduler", "kube-system/kube-scheduler", force=False) is None
    assert guard.of_controllers(["job"], "kube-system/dray-controllers", force=False) is not None
    assert guard.of_controllers(["bare-node"], "kube-system/dray-controllers", force=False) is None
    assert guard.of_controllers(["job"], "kube-system/kube-controller-manager", force=False) is None


def test_every_controller_of_kubernetes_is_known_by_its_name_there() -> None:
    assert set(CONTROLLERS) - set(guard._ITS_NAMES) == {
        "bare-node",
        "coscheduling",
        "device-usage",
        "leader-election",
        "notifications",
    }


def test_controllers_that_run_elsewhere_do_not_start(config: Path, apply: Callable[[dict[str, Any]], None]) -> None:
    apply(lease("kube-controller-manager"))
    with running("controllers", "--controllers", "resourceclaim,job,bare-node", "--kubeconfig", str(config)) as process:
        status, said = process.end()
    assert status == 1
    assert "It also runs resourceclaim, job: leave these out of --controllers, or start it with" in said
    assert "--controllers=*,-resourceclaim-controller,-job-controller, or use --force." in said


@pytest.mark.parametrize(
    ("made", "renews", "found"),
    [
        (None, False, False),
        (lease("kube-scheduler"), False, True),
        (lease("kube-scheduler", LONG_AGO), False, False),
        (lease("kube-scheduler", LONG_AGO), True, True),
        ({**lease("kube-scheduler"), "spec": {"holderIdentity": ""}}, False, False),
    ],
)
async def test_a_lease_that_is_renewed_tells(
    made: dict[str, Any] | None, renews: bool, found: bool, virtual_time: VirtualTime
) -> None:
    async with LocalCluster() as cluster:
        if made is not None:
            await cluster.create(made)

        async def renew() -> None:
            await asyncio.sleep(0.1)
            spec = {"spec": {"renewTime": "2020-01-01T00:00:02.000000Z"}}
            await cluster.patch("Lease", "kube-scheduler", spec, namespace="kube-system")

        task = asyncio.create_task(renew()) if renews else None
        assert await ComponentLease(cluster.client, "kube-scheduler", moment=0.4).is_at_work() is found
        if task is not None:
            await task


async def test_one_that_starts_later_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(election, "_MOMENT", 0.05)
    async with LocalCluster() as cluster:
        recorder = EventRecorder(cluster.client, "test")
        writing = asyncio.create_task(recorder.run())
        watching = guard.Guard("kube-scheduler", "Stop it", period=0.05)
        task = asyncio.create_task(watching.watch(cluster.client, recorder))
        await asyncio.sleep(0.1)
        assert not caplog.records
        await cluster.create(lease("kube-scheduler"))

        async def told() -> Any:
            return [each for each in await cluster.list("Event") if each["reason"] == "AlsoAtWork"]

        (event,) = await cluster.eventually(told)
        assert event["involvedObject"]["name"] == "kube-scheduler"
        await asyncio.sleep(0.2)
        assert len(await told()) == 1
        for each in (task, writing):
            each.cancel()
    words = [each.getMessage() for each in caplog.records]
    assert words == ["kube-scheduler is running: master-1 renews the lease kube-system/kube-scheduler. Stop it."]
