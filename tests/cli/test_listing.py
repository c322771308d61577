"""What `dray explain` and `dray queue` say of queues that they cannot read, or that nobody acts on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dray.client.foreign_kinds import definitions
from tests.cli.accounts import account, apply, grant
from tests.cli.test_explain_live import Server
from tests.cli.test_queue import QUEUES
from tests.scheduling_loop.test_kind_owners import webhooks
from tests.server.process import listening

Dray = Callable[..., Result]
REMEDY = "ask for the role dray:viewer, which may read these kinds (on Kubernetes: examples/deploy/viewer.yaml)"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: %s}}
spec:
  schedulerName: %s
  containers: [{name: main, image: busybox, resources: {requests: {cpu: "1"}}}]
"""


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of an administrator of a server that has the kinds of queues."""
    path = tmp_path / "admin"
    with listening(kubeconfig=path, plain=False, provided=definitions()):
        yield path


def started(run: Dray, admin: Path) -> Server:
    server = Server(run, admin)
    server.node("a", 1)
    return server


def test_explain_names_a_local_queue_that_does_not_exist_where_there_are_no_queues_at_all(
    run: Dray, admin: Path
) -> None:
    server = started(run, admin)
    server.apply(POD % ("p", "smal", "dray"))
    status, lines = server.explain("pod", "p")
    assert (status, lines) == (
        1,
        ["pod default/p: cannot be placed: LocalQueue default/smal not found; there are none"],
    )


def test_explain_says_that_queues_may_not_be_read_instead_of_an_answer(run: Dray, admin: Path, tmp_path: Path) -> None:
    server = started(run, admin)
    server.apply(QUEUES + "---" + POD % ("p", "team", "dray"))
    limited = account(run, admin, tmp_path / "limited")
    every = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}]
    readable = ["", "resource.k8s.io", "policy", "storage.k8s.io", "scheduling.k8s.io", "batch"]
    grant(run, admin, "most", [{**every[0], "apiGroups": readable}])
    status, lines = Server(run, limited).explain("pod", "p")
    assert status == 1
    assert lines[0].startswith("pod default/p: cannot tell whether it fits: may not read "), lines
    assert "LocalQueue" in lines[0]
    assert any("localqueues.kueue.x-k8s.io is forbidden" in line for line in lines[1:])
    assert REMEDY in lines[-1]
    status, lines = Server(run, limited).explain("podgroup", "g")
    assert status == 2
    assert lines[0].startswith("error: cannot tell whether PodGroup g exists in namespace default: may not read ")
    assert any(line.startswith("podgroups.scheduling.run.ai is forbidden") for line in lines[1:-1])
    assert lines[-1] == f"hint: {REMEDY}"


def test_plan_says_that_queues_may_not_be_read_instead_of_an_answer(run: Dray, admin: Path, tmp_path: Path) -> None:
    started(run, admin).apply(QUEUES + "---" + POD % ("p", "team", "dray"))
    limited = str(account(run, admin, tmp_path / "limited"))
    readable = ["", "resource.k8s.io", "policy", "storage.k8s.io", "scheduling.k8s.io", "batch"]
    grant(run, admin, "most", [{"apiGroups": readable, "resources": ["*"], "verbs": ["list"]}])
    queued = run("plan", "-f", "-", "--kubeconfig", limited, stdin=POD % ("q", "team", "dray"))
    assert (queued.exit_code, queued.stdout) == (2, "")
    assert queued.stderr.startswith("error: cannot tell whether the pods fit: may not read ")
    assert "LocalQueue" in queued.stderr.splitlines()[0]
    assert queued.stderr.splitlines()[-1] == f"hint: {REMEDY}"
    free = (POD % ("q", "team", "dray")).replace(", labels: {kueue.x-k8s.io/queue-name: team}", "")
    planned = run("plan", "-f", "-", "--kubeconfig", limited, stdin=free)
    assert planned.exit_code == 0
    assert planned.stdout.splitlines()[0] == "pod default/q: on node a"
    # Whether the quota of its queue lets it start is not known.
    assert "default/p waited" not in planned.stdout
    note = (
        "note: 2 waiting pods are left out, because their queues or groups may not be read: default/p, default/waiting"
    )
    assert note in planned.stdout.splitlines()


@pytest.mark.parametrize(
    ("name", "question"), [((), "whether this cluster has queues"), (("team",), "whether queue team exists")]
)
def test_queue_cannot_tell_whether_there_are_queues_that_it_may_not_read(
    run: Dray, admin: Path, tmp_path: Path, name: tuple[str, ...], question: str
) -> None:
    started(run, admin).apply(QUEUES)
    limited = account(run, admin, tmp_path / "limited")
    readable = ["", "resource.k8s.io", "policy", "storage.k8s.io", "scheduling.k8s.io", "batch"]
    grant(run, admin, "most", [{"apiGroups": readable, "resources": ["*"], "verbs": ["list"]}])
    shown = run("queue", *name, "--kubeconfig", str(limited))
    first, *others = shown.output.splitlines()
    assert shown.exit_code == 1
    assert first.startswith(f"error: cannot tell {question}: may not read ")
    assert {"ClusterQueue", "LocalQueue", "ResourceFlavor", "Queue"} <= set(first.partition("read ")[2].split(", "))
    refused = [line.split()[0] for line in others if " is forbidden: " in line and not line.startswith("note: ")]
    assert len(refused) == len(set(refused)) == len(first.partition("read ")[2].split(", "))
    assert "clusterqueues.kueue.x-k8s.io" in refused
    assert f"hint: {REMEDY}" in others
    grant(run, admin, "dray:viewer")
    assert "team" in run("queue", *name, "--kubeconfig", str(limited)).output.splitlines()[1 if name else 2]


def test_the_role_that_is_recommended_may_read_everything(run: Dray, admin: Path, tmp_path: Path) -> None:
    started(run, admin).apply(QUEUES + "---" + POD % ("p", "team", "dray"))
    limited = account(run, admin, tmp_path / "limited")
    grant(run, admin, "dray:viewer")
    taken = run("snapshot", "-o", str(tmp_path / "s"), "--kubeconfig", str(limited))
    assert (taken.exit_code, taken.stderr) == (0, "")
    missing = run("explain", "podgroup", "g", "--kubeconfig", str(limited))
    assert missing.stderr.startswith("error: ")
    assert "cannot tell" not in missing.stderr


def test_queue_names_the_kinds_that_it_may_not_read_beside_the_queues_that_it_shows(
    run: Dray, admin: Path, tmp_path: Path
) -> None:
    started(run, admin).apply(QUEUES)
    limited = account(run, admin, tmp_path / "limited")
    readable = ["", "resource.k8s.io", "policy", "storage.k8s.io", "scheduling.k8s.io", "batch", "scheduling.run.ai"]
    every = {"resources": ["*"], "verbs": ["list"]}
    queues = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["clusterqueues", "localqueues"], "verbs": ["list"]}
    grant(run, admin, "most", [{"apiGroups": readable, **every}, queues])
    shown = run("queue", "--kubeconfig", str(limited))
    notes = [line for line in shown.output.splitlines() if line.startswith("note: ")]
    assert shown.exit_code == 0, shown.output
    assert f"note: {REMEDY}" in notes
    assert any(line.startswith("note: resourceflavors.kueue.x-k8s.io is forbidden") for line in notes)
    # There is no ClusterQueue of that name, and cohorts may not be read.
    missing = run("queue", "org2", "--kubeconfig", str(limited)).output
    assert missing.startswith("error: cannot tell whether queue org2 exists: may not read ")


def test_queues_that_are_left_to_kueue_are_shown_with_why(run: Dray, admin: Path) -> None:
    server = started(run, admin)
    server.apply(QUEUES + "---" + POD % ("p", "team", "dray"))
    apply(run, admin, webhooks("kueue-webhooks", "kueue.x-k8s.io"))
    shown = run("queue", "--kubeconfig", str(admin))
    note = "quota is left to Kueue, which is installed (ValidatingWebhookConfiguration kueue-webhooks)"
    lines = shown.output.splitlines()
    assert (shown.exit_code, lines[2].split()[1]) == (0, "team")
    assert lines[-1].startswith(f"note: {note}")
    found = json.loads(run("queue", "-o", "json", "--kubeconfig", str(admin)).output)
    assert found["notes"][0].startswith(note)
    status, explained = server.explain("pod", "p")
    assert (status, explained[0]) == (0, "pod default/p: fits on a")
    assert any(note in line for line in explained)


def test_queue_tells_what_its_scheduler_said_of_it(run: Dray, admin: Path) -> None:
    server = started(run, admin)
    server.apply(QUEUES)
    about: dict[str, Any] = {"kind": "ClusterQueue", "name": "team", "namespace": ""}
    why = "quota is not enforced: dray scheduler runs with --queues off"
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": about,
        "reason": "NotActedUpon",
        "message": why,
        "type": "Warning",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    apply(run, admin, event)
    last = run("queue", "--kubeconfig", str(admin)).output.splitlines()[-1]
    assert last == f"note: {why} (reported by a scheduler at 2026-01-01T00:00:00Z)"


def test_queue_counts_waiting_pods_of_every_scheduler(run: Dray, admin: Path) -> None:
    server = started(run, admin)
    server.apply(QUEUES + "---" + POD % ("p", "team", "dray") + "---" + POD % ("q", "team", "another"))
    team = run("queue", "team", "--kubeconfig", str(admin)).output.splitlines()
    assert team[1].split()[-1] == "3"
    assert {line.removeprefix("next: ") for line in team[-3:]} == {
        f"pod default/{name}: not tried yet" for name in ("p", "q", "waiting")
    }


def test_explain_says_that_a_queue_has_no_effect_where_there_are_no_such_kinds(run: Dray, tmp_path: Path) -> None:
    with listening(kubeconfig=tmp_path / "plain"):
        server = started(run, tmp_path / "plain")
        server.apply(POD % ("p", "team", "dray"))
        status, lines = server.explain("pod", "p")
    assert (status, lines[0]) == (0, "pod default/p: fits on a")
    assert any("the queue or group of the pod has no effect" in line for line in lines)
