"""`dray up` as its users see it: a process, a kubeconfig, and what becomes of manifests."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.lab import CLASS, claim, gpus, node, pod, template
from tests.cli.running import Running, eventually, running

Dray = Callable[..., Result]
READY = re.compile(r"ready in (\d+\.\d) s at http://127\.0\.0\.1:\d+ \(applied: (.*)\)")
QUEUE = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: q}\nspec: {namespaceSelector: {}}\n"
BAD = node("a") + "apiVersion: v1\nkind: Node\nmetadata: {name: NOT-LOWER}\n"


def up(folder: Path, *arguments: str) -> Any:
    return running("up", "--port", "0", "--plain", *arguments, cwd=folder)


def wait(process: Running) -> list[str]:
    """Its lines up to the one that says how to go on."""
    lines = []
    while not (line := process.line()).startswith("export "):
        assert line, process.end()
        lines.append(line)
    return [*lines, line]


def get(run: Dray, kubeconfig: Path, *arguments: str) -> Any:
    result = run("get", *arguments, "-o", "json", "--kubeconfig", str(kubeconfig))
    return json.loads(result.stdout) if result.exit_code == 0 else None


def node_of(run: Dray, kubeconfig: Path, name: str) -> str:
    found = get(run, kubeconfig, "pod", name)
    return str(found["spec"].get("nodeName") or "") if found else ""


def test_manifests_are_applied_and_pods_placed_and_the_end_is_quick(run: Dray, tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/machines.yaml").write_text(CLASS + node("a") + gpus("a", 2))
    (tmp_path / "pods.yaml").write_text(template("one") + pod("p", "resourceClaimTemplateName: one"))
    with up(tmp_path, "lab", "pods.yaml") as process:
        first, page, last = wait(process)
        assert re.fullmatch(r"web page at http://127\.0\.0\.1:\d+/ui", page)
        matched = READY.fullmatch(first)
        assert matched, first
        assert matched[2] == "deviceclasses 1, nodes 1, resourceslices 1, resourceclaimtemplates 1, pods 1"
        assert last == f"export KUBECONFIG={tmp_path}/dray.kubeconfig"
        config = tmp_path / "dray.kubeconfig"
        assert eventually(lambda: node_of(run, config, "p")) == "a"
        # Nobody runs it there, and still it goes when it is told to.
        assert run("delete", "pod", "p", "--kubeconfig", str(config)).exit_code == 0
        assert eventually(lambda: not get(run, config, "resourceclaims")["items"])
        status, seconds = process.stop(signal.SIGINT)
        assert status == 0
        assert seconds < 5
    # It leads to a cluster that is gone.
    assert not config.exists()


def test_it_carries_on_where_it_ended(run: Dray, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(CLASS + node("a") + gpus("a", 1) + claim("c") + pod("p", "resourceClaimName: c"))
    (tmp_path / "more.yaml").write_text(pod("q", "resourceClaimName: c"))
    config = tmp_path / "data/kubeconfig"
    with up(tmp_path, "all.yaml", "--data", "data") as process:
        assert wait(process)[-1] == f"export KUBECONFIG={tmp_path}/data/kubeconfig"
        assert eventually(lambda: node_of(run, config, "p")) == "a"
        held = get(run, config, "resourceclaim", "c")["status"]["allocation"]
        assert process.stop()[0] == 0
    assert config.exists()
    with up(tmp_path, "more.yaml", "--data", "data") as process:
        wait(process)
        assert node_of(run, config, "p") == "a"
        assert eventually(lambda: node_of(run, config, "q")) == "a"
        found = get(run, config, "resourceclaim", "c")["status"]
        assert found["allocation"] == held
        assert [each["name"] for each in found["reservedFor"]] == ["p", "q"]


def test_kinds_of_others_are_served_and_not_in_the_way_of_who_installs_them(run: Dray, tmp_path: Path) -> None:
    (tmp_path / "queue.yaml").write_text(QUEUE)
    with up(tmp_path, "queue.yaml") as process:
        wait(process)
        config = tmp_path / "dray.kubeconfig"
        assert get(run, config, "customresourcedefinitions")["items"] == []
        # Nobody else is at work on it.
        assert eventually(lambda: get(run, config, "clusterqueue", "q").get("status"))


def test_nodes_are_as_their_manifests_have_them(run: Dray, tmp_path: Path) -> None:
    beat = '{type: Ready, status: "True", lastHeartbeatTime: "2020-01-01T00:00:00Z"}'
    (tmp_path / "nodes.yaml").write_text(
        node("plain")
        + node("small", '{capacity: {cpu: "2", memory: 1Gi, pods: "5"}}')
        + node("exported", f"{{conditions: [{beat}]}}")
        + node("broken", '{conditions: [{type: Ready, status: "False"}]}')
        + node("tainted", spec="{taints: [{key: k, effect: NoSchedule}]}")
    )
    with up(tmp_path, "nodes.yaml", "--kubeconfig", "k") as process:
        wait(process)
        nodes = {each["metadata"]["name"]: each for each in get(run, tmp_path / "k", "nodes")["items"]}
    capacity = {name: each["status"]["allocatable"] for name, each in nodes.items()}
    assert capacity["plain"] == {"cpu": "64", "memory": "256Gi", "pods": "110"}
    assert capacity["small"] == {"cpu": "2", "memory": "1Gi", "pods": "5"}
    ready = {name: each["status"]["conditions"][0]["status"] for name, each in nodes.items()}
    assert ready == {"plain": "True", "small": "True", "exported": "True", "broken": "False", "tainted": "True"}
    assert not nodes["exported"]["status"]["conditions"][0].get("lastHeartbeatTime")
    taints = {name: [taint["key"] for taint in each["spec"].get("taints", ())] for name, each in nodes.items()}
    assert taints["plain"] == taints["exported"] == []
    assert taints["tainted"] == ["k"]
    assert set(taints["broken"]) == {"node.kubernetes.io/not-ready"}


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("a: [", 2, r"bad\.yaml:1:\d+: not YAML"),
        (BAD, 1, r"bad\.yaml:\d+:\d+: error: Node NOT-LOWER: metadata.name: "),
        ("apiVersion: v1\nkind: Nod\nmetadata: {name: a}\n", 1, r"bad\.yaml:2:1: error: Nod a: .*no kind"),
    ],
    ids=["not YAML", "refused", "unknown kind"],
)
def test_what_is_wrong_with_a_manifest_is_shown_at_its_place(tmp_path: Path, text: str, status: int, said: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with up(tmp_path, "bad.yaml") as process:
        ended, message = process.end()
    assert ended == status, message
    assert re.match(said, message), message
    assert not (tmp_path / "dray.kubeconfig").exists()


def test_a_kubeconfig_that_somebody_else_wrote_stays(tmp_path: Path) -> None:
    with up(tmp_path) as process:
        wait(process)
        (tmp_path / "dray.kubeconfig").write_text("of another cluster")
        assert process.stop()[0] == 0
    assert (tmp_path / "dray.kubeconfig").read_text() == "of another cluster"


def test_a_port_that_is_taken_is_named(run: Dray, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("up", "--plain", "--port", str(port), "--kubeconfig", str(tmp_path / "k"))
    assert result.exit_code == 2
    assert result.stderr == f"error: 127.0.0.1:{port} is in use; choose another --port, or 0 for any that is free\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--port", "99999"), "cannot listen on 127.0.0.1:99999: a port is a number from 0 to 65535"),
        (("--port", "-1"), "cannot listen on 127.0.0.1:-1: a port is a number from 0 to 65535"),
        (("--port", "0", "--metrics-port", "99999"), "cannot serve metrics on 127.0.0.1:99999: a port is a number"),
        (("--port", "0", "--metrics-bind", "192.0.2.1", "--metrics-port", "0"), "cannot serve metrics on 192.0.2.1:0"),
    ],
)
def test_where_it_cannot_listen_is_one_line(run: Dray, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    result = run("up", "--plain", *arguments, "--kubeconfig", str(tmp_path / "k"))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {said}"), result.stderr
    assert result.stderr.count("\n") == 1


def test_an_address_of_another_machine_is_named(run: Dray) -> None:
    result = run("apiserver", "--bind", "192.0.2.1", "--port", "0")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: cannot listen on 192.0.2.1:0: this machine has no address 192.0.2.1\n",
    )


def test_a_file_that_is_not_there(run: Dray, tmp_path: Path) -> None:
    result = run("up", str(tmp_path / "none.yaml"))
    assert result.exit_code == 2
    assert "none.yaml: cannot read: no such file" in result.stderr
