"""`dray explain` of what a server has. There is no scheduler: pods stay as they are put."""

from __future__ import annotations

import asyncio
import json
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dray.api.catalogue import find
from dray.client.api import ApiClient
from dray.client.http import HttpTransport
from dray.client.kubeconfig import Kubeconfig
from tests.cli.lab import CLASS, claim, gpus, node, pod, template
from tests.server.process import listening

Dray = Callable[..., Result]


class Server:
    """`dray` against a server of its own, and a way to write what only the parts of a cluster write."""

    def __init__(self, run: Dray, kubeconfig: Path) -> None:
        self._run = run
        self._kubeconfig = kubeconfig

    def apply(self, text: str) -> None:
        result = self._run("apply", "-f", "-", "--kubeconfig", str(self._kubeconfig), stdin=text)
        assert result.exit_code == 0, result.output

    def explain(self, *arguments: str) -> tuple[int, list[str]]:
        """What the server answers; a snapshot must answer in the same words."""
        result = self._run("explain", *arguments, "--kubeconfig", str(self._kubeconfig))
        again = self._run("explain", *arguments, "--snapshot", self.snapshot())
        assert (again.exit_code, again.output) == (result.exit_code, result.output)
        return result.exit_code, result.output.splitlines()

    def snapshot(self) -> str:
        file = self._kubeconfig.with_name("cluster.snapshot")
        taken = self._run("snapshot", "-o", str(file), "--kubeconfig", str(self._kubeconfig))
        assert taken.exit_code == 0, taken.output
        return str(file)

    def printed(self, *arguments: str) -> list[str]:
        """The lines that a command prints, which must succeed."""
        result = self._run(*arguments, "--kubeconfig", str(self._kubeconfig))
        assert result.exit_code == 0, result.output
        return result.output.splitlines()

    def patch(self, kind: str, name: str, body: dict[str, Any], subresource: str = "") -> None:
        api_version = "resource.k8s.io/v1" if kind == "ResourceClaim" else "v1"
        resource = find(api_version, kind)
        assert resource is not None
        namespace = "default" if resource.namespaced else ""

        async def write() -> None:
            client = ApiClient(HttpTransport(Kubeconfig.load([self._kubeconfig]).endpoint()))
            await client.patch(resource, name, body, namespace=namespace, subresource=subresource)
            await client.close()

        asyncio.run(write())

    def node(self, name: str, number: int, *, taints: Any = None, cpu: str = "8") -> None:
        self.apply(node(name) + gpus(name, number))
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
        self.patch("Node", name, {"status": {"allocatable": amounts}}, "status")
        self.patch("Node", name, {"spec": {"taints": taints}})

    def hold(self, name: str, user: str, node_name: str, device: str) -> None:
        """Gives a claim its device, and its user the node."""
        found = self._run("get", "pod", user, "-o", "json", "--kubeconfig", str(self._kubeconfig))
        uid = json.loads(found.stdout)["metadata"]["uid"]
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": node_name, "device": device}
        reserved = [{"resource": "pods", "name": user, "uid": uid}]
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
        self.patch("ResourceClaim", name, {"status": status}, "status")


@pytest.fixture
def server(run: Dray, tmp_path: Path) -> Iterator[Server]:
    with listening(kubeconfig=tmp_path / "kubeconfig"):
        made = Server(run, tmp_path / "kubeconfig")
        made.apply(CLASS)
        yield made


def test_what_stands_in_the_way_on_every_node(server: Server) -> None:
    server.node("a", 1)
    server.node("b", 2, taints=[{"key": "repair", "value": "yes", "effect": "NoSchedule"}])
    server.node("c", 2, cpu="1")
    server.apply(claim("two", 2) + pod("p", "resourceClaimName: two", resources='{requests: {cpu: "2"}}'))
    status, lines = server.explain("pod", "p")
    assert status == 1
    assert lines == [
        "pod default/p: does not fit: 1 device short on node a; gpu: needs 2, 1 available; "
        "other nodes: 1 tainted, 1 Insufficient cpu; ask for at most 1, or split the work into several pods",
        "├─ node a: does not fit",
        "│  └─ claim default/two",
        "│     └─ request gpu: needs 2, 1 available",
        "├─ node b: does not fit",
        "│  └─ tainted repair=yes:NoSchedule, not tolerated",
        "└─ node c: does not fit",
        "   └─ Insufficient cpu: 2 requested, 1 of 1 left",
    ]
    assert server.explain("pod/p", "--node", "c")[1] == [
        "pod default/p: does not fit: no node fits: Insufficient cpu: 2 requested, 1 of 1 left; ask for at most 1",
        *lines[6:],
    ]
    assert server.explain("pod/p", "--node", "d") == (2, ["error: node d not found; there are: a, b, c"])


def test_nodes_that_have_the_devices_come_first_if_the_others_have_none(server: Server) -> None:
    server.node("a", 0)
    server.node("b", 1, taints=[{"key": "repair", "value": "yes", "effect": "NoSchedule"}])
    server.node("c", 1, taints=[{"key": "repair", "value": "yes", "effect": "NoSchedule"}])
    server.apply(claim("one") + pod("p", "resourceClaimName: one"))
    assert server.explain("pod", "p")[1][0] == (
        "pod default/p: does not fit: 2 nodes have the devices, but: tainted repair=yes:NoSchedule, not tolerated; "
        "other nodes: 1 without the devices; tolerate the taint in the pod, or remove it from the node"
    )


def test_a_pod_that_selects_its_node_is_told_to_name_another(server: Server) -> None:
    server.node("a", 0)
    server.patch("Node", "a", {"metadata": {"labels": {"pool": "small"}}})
    server.node("b", 1)
    server.apply(claim("one") + pod("p", "resourceClaimName: one", nodeSelector="{pool: small}"))
    assert server.explain("pod", "p")[1][0] == (
        "pod default/p: does not fit: node a has no device of class gpu that request gpu takes; "
        "other nodes: 1 without the required labels; name another node, or leave out the node selector"
    )


def test_a_pod_without_a_node_selector_is_not_told_to_leave_it_out(server: Server) -> None:
    server.node("a", 0)
    # Without any slice the headline would be that the driver is absent.
    server.apply(gpus("elsewhere", 1) + claim("one") + pod("p", "resourceClaimName: one"))
    assert server.explain("pod", "p")[1][0] == (
        "pod default/p: does not fit: node a has no device of class gpu that request gpu takes"
    )


def test_a_pod_that_could_be_placed(server: Server) -> None:
    server.node("a", 1)
    server.apply(claim("one") + pod("p", "resourceClaimName: one"))
    assert server.explain("default/p") == (
        0,
        [
            "pod default/p: fits on a",
            "├─ node a: fits",
            "│  └─ claim default/one, gpu: gpu.example.com/a/gpu-0",
            "└─ its scheduler has not tried it since, or does not run",
        ],
    )
    kept = "0/1 nodes are available: free resources are reserved for PodGroup default/g"
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": kept}
    server.patch("Pod", "p", {"status": {"conditions": [condition]}}, "status")
    assert server.explain("default/p")[1][-1] == f"└─ last message of its scheduler: {kept}"


def test_what_a_pod_holds_and_who_is_in_the_way_of_another(server: Server) -> None:
    server.node("a", 1)
    server.apply(claim("one") + pod("low", "resourceClaimName: one", nodeName="a"))
    server.hold("one", "low", "a", "gpu-0")
    holding = [
        "└─ claim default/one: allocated",
        "   ├─ gpu: gpu.example.com/a/gpu-0",
        "   └─ reserved for pods/low",
    ]
    assert server.explain("pod/low") == (0, ["pod default/low: on node a", *holding])
    assert server.explain("claim/one")[1][0] == "claim default/one: allocated"
    server.apply(
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 10\n---\n"
        + claim("other")
        + pod("high", "resourceClaimName: other", priorityClassName="high")
    )
    status, lines = server.explain("pod/high")
    assert status == 1
    assert lines[-1] == "└─ would fit on node a without pods of lower priority: default/low (priority 0)"
    assert "1 device in use by default/one: a/gpu-0" in "\n".join(lines)
    assert server.explain("claim", "other")[1][0] == (
        "claim default/other: not allocated; pending pods that use it: high; 1 device short on node a; "
        "gpu: needs 1, 0 available (1 in use by default/one); would fit on a if freed: default/one"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (pod("p", schedulingGates="[{name: example.com/later}]"), "waits until its scheduling gates are removed"),
        (template("t") + pod("p", "resourceClaimTemplateName: t"), "ResourceClaim not created yet"),
        (
            pod("p", "resourceClaimTemplateName: missing"),
            "ResourceClaimTemplate default/missing not found",
        ),
        (pod("p", "resourceClaimName: nothing"), "ResourceClaim default/nothing not found; create it in namespace"),
        (
            claim("shared") + pod("p", "resourceClaimName: sharde"),
            "ResourceClaim default/sharde not found; did you mean shared?",
        ),
        (
            claim("shared").replace("metadata: {", "metadata: {namespace: kube-system, ")
            + pod("p", "resourceClaimName: shared"),
            "ResourceClaim default/shared not found; it is in namespace kube-system",
        ),
        (claim("c").replace("deviceClassName: gpu", "deviceClassName: tpu") + pod("p", "resourceClaimName: c"), "tpu"),
        (pod("p", schedulingGroup="{podGroupName: team}"), "PodGroup default/team not found"),
        (
            pod("p", volumes="[{name: v, persistentVolumeClaim: {claimName: data}}]"),
            'persistentvolumeclaim "data" not found',
        ),
        (pod("p"), "there are no nodes"),
    ],
    ids=[
        "gated",
        "no claim yet",
        "no template",
        "no claim",
        "claim is misspelt",
        "claim of another namespace",
        "no class",
        "no group",
        "no volume claim",
        "no nodes",
    ],
)
def test_what_keeps_all_nodes_from_being_asked(server: Server, text: str, said: str) -> None:
    server.apply(text)
    status, lines = server.explain("pod/p")
    assert status == 1
    assert said in "\n".join(lines)


def test_the_target_must_be_one(server: Server) -> None:
    server.apply(claim("same") + pod("same"))
    assert server.explain("same") == (2, ["error: same may be a pod or a claim; say which, as in pod/same"])
    assert server.explain("pod/none") == (
        2,
        ["error: pod none not found in namespace default; -n chooses another namespace"],
    )
    assert "in namespace other" in server.explain("none", "-n", "other")[1][0]


def test_a_server_that_is_not_there(run: Dray, tmp_path: Path) -> None:
    result = run("explain", "pod/p", "--kubeconfig", str(tmp_path / "none"))
    assert result.exit_code == 2
    assert "none" in result.stderr


def test_labels_that_no_node_has_are_named(server: Server) -> None:
    server.node("a", 1)
    server.node("b", 1)
    server.patch("Node", "b", {"metadata": {"labels": {"zone": "east"}}})
    server.apply(pod("p", nodeSelector="{zone: north}"))
    assert server.explain("pod/p") == (
        1,
        [
            "pod default/p: does not fit: no node fits: label zone must be north, but is not set (1), east (1)"
            "; change the node selector, or label a node with zone",
            "└─ 2 nodes (a, b): do not fit",
            "   └─ label zone must be north, but is not set (1), east (1)",
        ],
    )
    affinity = (
        "{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
        "[{matchExpressions: [{key: zone, operator: NotIn, values: [east, west]}, {key: rack, operator: Exists}]}]}}}"
    )
    server.apply(pod("q", affinity=affinity))
    assert server.explain("pod/q", "--node", "b")[1][1:] == [
        "└─ node b: does not fit",
        "   ├─ label zone must not be east or west, but is east",
        "   └─ label rack must be set, but is not set",
    ]


def test_equal_nodes_share_a_tree(server: Server) -> None:
    for name in "abcdef":
        server.node(name, 1)
    server.apply(claim("two", 2) + pod("p", "resourceClaimName: two"))
    assert server.explain("pod/p")[1] == [
        "pod default/p: does not fit: 1 device short on each of 6 nodes; gpu: needs 2, 1 available"
        "; ask for at most 1, or split the work into several pods",
        "└─ 6 nodes (a, b, c, d and 2 more): do not fit",
        "   └─ claim default/two",
        "      └─ request gpu: needs 2, 1 available on each",
    ]


def test_what_the_provisioner_said_of_a_volume_is_shown(server: Server) -> None:
    volume = """
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {name: data}
        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
        ---
        apiVersion: v1
        kind: Event
        metadata: {name: e, namespace: default}
        involvedObject: {kind: PersistentVolumeClaim, namespace: default, name: data}
        type: Warning
        reason: ProvisioningFailed
        message: "no space left in pool fast"
        """
    server.apply(textwrap.dedent(volume))
    server.apply(pod("p", volumes="[{name: v, persistentVolumeClaim: {claimName: data}}]"))
    status, lines = server.explain("pod/p")
    assert status == 1
    assert "unbound immediate PersistentVolumeClaims (data)" in lines[0]
    assert lines[-1] == "└─ PersistentVolumeClaim data: no space left in pool fast"


def test_what_the_claim_controller_said_is_shown(server: Server) -> None:
    event = """
        apiVersion: v1
        kind: Event
        metadata: {name: e, namespace: default}
        involvedObject: {kind: Pod, namespace: default, name: p}
        type: Warning
        reason: FailedResourceClaimCreation
        message: "PodResourceClaim t: exceeded quota"
        """
    server.apply(template("t") + pod("p", "resourceClaimTemplateName: t"))
    server.apply(textwrap.dedent(event))
    assert server.explain("pod/p")[1][-1] == "└─ PodResourceClaim t: exceeded quota"


def test_what_was_said_before_a_pod_had_a_node_does_not_explain_why_it_has_not_started(
    server: Server, run: Dray, tmp_path: Path
) -> None:
    event = """
        apiVersion: v1
        kind: Event
        metadata: {name: %s, namespace: default}
        involvedObject: {kind: Pod, namespace: default, name: p}
        type: Warning
        reason: %s
        lastTimestamp: "2026-01-01T00:00:%s"
        message: "%s"
        ---
        """
    server.node("a", 1)
    server.apply(claim("one") + pod("p", "resourceClaimName: one", nodeName="a"))
    earlier = (
        ("e1", "FailedScheduling", "02Z", "0/1 nodes are available"),
        ("e2", "FailedResourceClaimCreation", "01Z", "x"),
    )
    for each in earlier:
        server.apply(textwrap.dedent(event % each))
    assert server.explain("pod/p")[1][0] == "pod default/p: on node a"
    server.apply(textwrap.dedent(event % ("e3", "Failed", "00Z", "pull access denied")))
    # Snapshots have no events of kubelets.
    said = run("explain", "pod/p", "--kubeconfig", str(tmp_path / "kubeconfig")).output
    assert said.startswith("pod default/p: on node a: pull access denied\n")


def test_data(server: Server) -> None:
    server.node("a", 1)
    server.node("b", 1, taints=[{"key": "repair", "effect": "NoSchedule"}])
    server.apply(claim("two", 2) + pod("p", "resourceClaimName: two"))
    status, lines = server.explain("pod/p", "-o", "json")
    assert status == 1
    row = json.loads("\n".join(lines))
    assert (row["kind"], row["name"], row["fits"], row["outcome"]) == ("pod", "p", False, "does not fit")
    assert row["conclusion"].startswith("1 device short on node a")
    assert [each["node"] for each in row["nodes"]] == ["a", "b"]
    assert row["nodes"][0]["requests"][0]["available"] == ["gpu.example.com/a/gpu-0"]
    assert row["nodes"][1]["obstacles"][-1] == "tainted repair:NoSchedule, not tolerated"
    assert json.loads("\n".join(server.explain("claim/two", "-o", "json")[1]))["nodes"][0]["fits"] is False
