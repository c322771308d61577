"""`dray scheduler` and `dray controllers`: processes of their own, against a server elsewhere."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from dray.api.catalogue import find
from dray.cli.components import chosen, scheduling
from dray.client.api import ApiClient
from dray.client.http import HttpTransport
from dray.client.kubeconfig import Kubeconfig
from dray.controllers.registry import CONTROLLERS
from tests.cli.lab import CLASS, claim, gpus, node, pod, template
from tests.cli.running import Running, eventually, running

Dray = Callable[..., Result]


@pytest.fixture
def apply(run: Dray, config: Path) -> Callable[[str], None]:
    def apply_text(text: str) -> None:
        result = run("apply", "-f", "-", "--kubeconfig", str(config), stdin=text)
        assert result.exit_code == 0, result.output

    return apply_text


@pytest.fixture
def get(run: Dray, config: Path) -> Callable[..., Any]:
    def get_json(*arguments: str) -> Any:
        result = run("get", *arguments, "-o", "json", "--kubeconfig", str(config))
        return json.loads(result.stdout) if result.exit_code == 0 else None

    return get_json


def machine(config: Path, apply: Callable[[str], None]) -> None:
    """A node with a status, as a kubelet would have written it."""
    apply(CLASS + node("a") + gpus("a", 1))

    async def write() -> None:
        client = ApiClient(HttpTransport(Kubeconfig.load([config]).endpoint()))
        kind = find("v1", "Node")
        assert kind is not None
        amounts = {"cpu": "8", "memory": "8Gi", "pods": "10"}
        await client.patch(kind, "a", {"status": {"allocatable": amounts}}, subresource="status")
        await client.patch(kind, "a", {"spec": {"taints": None}})
        await client.close()

    asyncio.run(write())


def url(process: Running) -> str:
    """Where it says that its metrics are."""
    line = process.line()
    assert "metrics at http://127.0.0.1:" in line, line or process.end()
    return line.rpartition("metrics at ")[2]


def read(address: str) -> str:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return str(answer.read().decode())


def test_the_scheduler_places_its_pods_and_no_others(
    config: Path, apply: Callable[[str], None], get: Callable[..., Any]
) -> None:
    machine(config, apply)
    apply(claim("c") + pod("p", "resourceClaimName: c", schedulerName="mine") + pod("q"))
    options = ("--scheduler-name", "mine", "--no-leader-elect", "--metrics-port", "0")
    with running("scheduler", "--kubeconfig", str(config), *options) as process:
        metrics = url(process)
        assert eventually(lambda: get("pod", "p")["spec"].get("nodeName")) == "a"
        assert get("resourceclaim", "c")["status"]["reservedFor"][0]["name"] == "p"
        assert "nodeName" not in get("pod", "q")["spec"]
        wanted = 'scheduler_schedule_attempts_total{profile="mine",result="scheduled"} 1.0'
        assert eventually(lambda: wanted in read(metrics))
        assert read(metrics.replace("/metrics", "/healthz")) == "ok"
        assert read(metrics.replace("/metrics", "/readyz")) == "ok"
        status, seconds = process.stop()
        assert status == 0
        assert seconds < 5


def test_who_loses_the_lease_ends_with_a_word(run: Dray, config: Path, get: Callable[..., Any]) -> None:
    with running("scheduler", "--kubeconfig", str(config)) as process:
        assert process.line().startswith("Scheduling the pods of default-scheduler at http://")
        assert process.line() == "leads by lease kube-system/dray-scheduler"
        lease = get("lease", "dray-scheduler", "-n", "kube-system")
        assert lease["spec"]["holderIdentity"]
        text = json.dumps(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "dray-scheduler", "namespace": "kube-system"},
                "spec": {"holderIdentity": "somebody else"},
            }
        )
        steal(run, config, text)
        status, said = process.end()
    assert status == 1
    assert "error: the lease kube-system/dray-scheduler is lost" in said
    assert "Traceback" not in said


def steal(run: Dray, config: Path, lease: str) -> None:
    result = run("apply", "-f", "-", "--force-conflicts", "--kubeconfig", str(config), stdin=lease)
    assert result.exit_code == 0, result.output


def test_controllers_do_what_they_are_asked_for(
    config: Path, apply: Callable[[str], None], get: Callable[..., Any]
) -> None:
    apply(CLASS + template("t") + pod("p", "resourceClaimTemplateName: t"))
    options = ("--controllers", "resourceclaim", "--no-leader-elect", "--metrics-port", "0")
    with running("controllers", "--kubeconfig", str(config), *options) as process:
        metrics = url(process)
        [made] = eventually(lambda: get("resourceclaims")["items"])
        assert made["metadata"]["ownerReferences"][0]["name"] == "p"
        assert "resourceclaim_creates_total" in read(metrics)
        assert process.stop()[0] == 0


def test_which_controllers(run: Dray) -> None:
    assert chosen("*") == tuple(CONTROLLERS)
    assert set(CONTROLLERS) - set(chosen("*,-job,-namespace")) == {"job", "namespace"}
    assert chosen("job, resourceclaim") == ("resourceclaim", "job")
    assert chosen("-job") == ()
    result = run("controllers", "--controllers", "jobs")
    assert result.exit_code == 2
    assert "unknown: jobs; there are: resourceclaim, " in result.stderr
    assert run("controllers", "--controllers", "-job").exit_code == 2


def test_the_documentation_names_every_controller() -> None:
    text = (Path(__file__).parents[2] / "docs/controllers.md").read_text()
    assert re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE) == list(CONTROLLERS)


@pytest.mark.parametrize(
    ("options", "minutes"), [([], "30"), (["--reserve-minutes", "5"], "5.0"), (["--drain-minutes", "5"], "5.0")]
)
def test_the_former_name_of_an_option_still_works(options: list[str], minutes: str) -> None:
    @click.command()
    @scheduling
    def command(reserve_minutes: float, **_: object) -> None:
        click.echo(reserve_minutes)

    assert CliRunner().invoke(command, options).output.startswith(minutes)
    assert "--drain-minutes" not in CliRunner().invoke(command, ["--help"]).output
