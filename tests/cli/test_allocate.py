from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from dray.cli.allocate import allocate
from dray.testing.objects import device, resource_slice

Write = Callable[..., str]


def gpus(node: str, *devices: str | dict[str, Any]) -> str:
    """A document with the devices of a node, indented like those that are written out here."""
    made = resource_slice(f"{node}-gpus", *devices, pool=node, nodeName=node)
    return f"\n    ---\n    {json.dumps(made)}\n    "


CLUSTER = """
    apiVersion: resource.k8s.io/v1
    kind: DeviceClass
    metadata: {name: gpu}
    spec:
      selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]
    ---
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaimTemplate
    metadata: {name: one-gpu}
    spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
    """
CLUSTER += gpus("a", "gpu-0")
CLUSTER += gpus("b", device("gpu-0", capacity={"memory": "80Gi"}), device("gpu-1", capacity={"memory": "24Gi"}))


def claim(name: str, count: int) -> str:
    return f"""
    ---
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {{name: {name}}}
    spec: {{devices: {{requests: [{{name: gpus, exactly: {{deviceClassName: gpu, count: {count}}}}}]}}}}
    """


def pod(name: str, *claims: str, extra: str = "") -> str:
    entries = ", ".join(f"{{name: {each.split()[-1]}, {each}}}" for each in claims)
    return f"""
    ---
    apiVersion: v1
    kind: Pod
    metadata: {{name: {name}}}
    spec:
      {extra}
      containers: [{{name: c, image: i}}]
      resourceClaims: [{entries}]
    """


@pytest.fixture
def run() -> Callable[..., Result]:
    def invoke(*arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(allocate, arguments, input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


def test_gives_each_claim_the_first_node_that_serves_it(run: Callable[..., Result], write: Write) -> None:
    result = run(write(CLUSTER + claim("small", 1) + claim("large", 2)))
    assert result.output.splitlines() == [
        "claim default/small: on node a",
        "  gpus: gpu.example.com/a/gpu-0",
        "claim default/large: on node b",
        "  gpus: gpu.example.com/b/gpu-0",
        "  gpus: gpu.example.com/b/gpu-1",
        "2 of 2 fit",
    ]
    assert result.exit_code == 0


def test_says_why_something_does_not_fit(run: Callable[..., Result], write: Write) -> None:
    result = run(write(CLUSTER + claim("huge", 3)))
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "claim default/huge: does not fit",
        "  node a: gpus: needs 3, 1 available",
        "  node b: gpus: needs 3, 2 available",
        "0 of 1 fit",
    ]


def test_asks_one_node(run: Callable[..., Result], write: Write) -> None:
    path = write(CLUSTER + claim("small", 1))
    assert "on node b" in run(path, "--node", "b").output
    missing = run(path, "--node", "c")
    assert missing.exit_code == 2
    assert "error: node c not found" in missing.output


def test_packs(run: Callable[..., Result], write: Write) -> None:
    path = write(CLUSTER + claim("small", 1))
    assert "b/gpu-1" in run(path, "--node", "b", "--policy", "pack").output
    assert "b/gpu-0" in run(path, "--node", "b").output


def test_pods_make_claims_from_templates_and_stay_together(run: Callable[..., Result], write: Write) -> None:
    two = pod("p", "resourceClaimTemplateName: one-gpu", "resourceClaimName: shared")
    result = run(write(CLUSTER + claim("shared", 1) + two + pod("q", "resourceClaimName: shared")))
    assert result.output.splitlines() == [
        "pod default/p: on node b",
        "  p-one-gpu, gpu: gpu.example.com/b/gpu-0",
        "  shared, gpus: gpu.example.com/b/gpu-1",
        "pod default/q: on node b",
        "2 of 2 fit",
    ]


def test_pods_go_where_they_may(run: Callable[..., Result], write: Write) -> None:
    nodes = "".join(
        f"\n    ---\n    apiVersion: v1\n    kind: Node\n    metadata: {{name: {name}, labels: {{zone: {zone}}}}}\n"
        for name, zone in (("a", "east"), ("b", "west"))
    )
    selected = pod("p", "resourceClaimTemplateName: one-gpu", extra="nodeSelector: {zone: west}")
    assert "pod default/p: on node b" in run(write(CLUSTER + nodes + selected)).output
    nowhere = pod("p", "resourceClaimTemplateName: one-gpu", extra="nodeSelector: {zone: north}")
    result = run(write(CLUSTER + nodes + nowhere))
    assert "  2 nodes (a, b): label zone must be north, but is east (1), west (1)" in result.output
    assert result.exit_code == 1


def node(name: str, spec: str = "{}", allocatable: str = "{}") -> str:
    return f"""
    ---
    apiVersion: v1
    kind: Node
    metadata: {{name: {name}}}
    spec: {spec}
    status: {{allocatable: {allocatable}}}
    """


def test_pods_are_placed_by_the_filters_and_scores_of_the_scheduler(run: Callable[..., Result], write: Write) -> None:
    wanting = pod("p", "resourceClaimTemplateName: one-gpu").replace("image: i", "image: i, resources: REQUESTS")
    wanting = wanting.replace("REQUESTS", "{requests: {cpu: 2}}")
    tainted = node("a", spec="{taints: [{key: maintenance, effect: NoSchedule}]}")
    assert "pod default/p: on node b" in run(write(CLUSTER + tainted + node("b") + wanting)).output
    result = run(write(CLUSTER + tainted + node("b", allocatable='{cpu: "1"}') + wanting))
    assert result.output.splitlines() == [
        "pod default/p: does not fit",
        "  node a: tainted maintenance:NoSchedule, not tolerated",
        "  node b: Insufficient cpu: 2 requested, 1 of 1 left",
        "0 of 1 fit",
    ]
    busy = node("a", allocatable='{cpu: "4"}') + node("b", allocatable='{cpu: "64"}')
    assert "pod default/p: on node b" in run(write(CLUSTER + busy + wanting)).output
    bound = wanting.replace("spec:\n", "spec:\n      nodeName: a\n", 1)
    assert "pod default/p: on node a" in run(write(CLUSTER + tainted + node("b") + bound)).output


def test_workloads_want_as_many_pods_as_they_have_replicas(run: Callable[..., Result], write: Write) -> None:
    deployment = """
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      replicas: 4
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec:
          containers: [{name: c, image: i}]
          resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
    """
    result = run(write(CLUSTER + deployment))
    assert "pod default/web-2: on node b" in result.output
    assert "3 of 4 fit" in result.output


def test_a_missing_template_is_named(run: Callable[..., Result], write: Write) -> None:
    result = run(write(CLUSTER + pod("p", "resourceClaimTemplateName: nothing")))
    assert "ResourceClaimTemplate default/nothing not found" in result.output
    assert result.exit_code == 1


def test_what_is_allocated_is_in_use(run: Callable[..., Result], write: Write) -> None:
    held = claim("held", 1).rstrip() + (
        "\n    status: {allocation: {devices: {results: "
        "[{request: gpus, driver: gpu.example.com, pool: a, device: gpu-0}]}}}\n"
    )
    result = run(write(CLUSTER + held + claim("small", 1)))
    assert "b/gpu-0" in result.output
    assert "1 of 1 fit" in result.output


@pytest.mark.parametrize(
    ("form", "parse"), [("json", json.loads), ("yaml", lambda text: list(yaml.safe_load_all(text)))]
)
def test_gives_data(run: Callable[..., Result], write: Write, form: str, parse: Callable[[str], Any]) -> None:
    rows = parse(run(write(CLUSTER + claim("small", 1) + claim("huge", 3)), "-o", form).output)
    assert [(row["name"], row["fits"]) for row in rows] == [("small", True), ("huge", False)]
    assert rows[0]["claims"][0]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    assert [reason["node"] for reason in rows[1]["reasons"]] == ["a", "b"]


def test_older_versions_are_read_as_v1(run: Callable[..., Result], write: Write) -> None:
    old = """
    ---
    apiVersion: resource.k8s.io/v1beta1
    kind: ResourceClaim
    metadata: {name: old}
    spec: {devices: {requests: [{name: gpu, deviceClassName: gpu}]}}
    """
    assert "gpu: gpu.example.com/a/gpu-0" in run(write(CLUSTER + old)).output


def test_what_an_api_server_refuses_is_not_guessed_at(run: Callable[..., Result], write: Write) -> None:
    result = run(write(CLUSTER + claim("bad", 0).replace("count: 0", "count: -1")))
    assert result.exit_code == 2
    assert "ResourceClaim bad" in result.output


def test_reads_standard_input(run: Callable[..., Result]) -> None:
    assert run("-", stdin="{}").exit_code == 0
    assert run("no-such-file").exit_code == 2


SERVING = CLUSTER.replace(
    "spec:\n      selectors: [{cel", "spec:\n      extendedResourceName: example.com/gpu\n      selectors: [{cel"
)


def asking(name: str, resources: str, kind: str = "limits", extra: str = "") -> str:
    return pod(name, extra=extra).replace("image: i}", f"image: i, resources: {{{kind}: {{{resources}}}}}}}")


@pytest.mark.parametrize("resource", ["example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"])
def test_extended_resources_are_served_by_devices(run: Callable[..., Result], write: Write, resource: str) -> None:
    result = run(write(SERVING + asking("p", f"{resource}: 2") + asking("q", f"{resource}: 1") + asking("r", "cpu: 1")))
    assert result.stdout.splitlines() == [
        "pod default/p: on node b",
        f"  {resource}: gpu.example.com/b/gpu-0",
        f"  {resource}: gpu.example.com/b/gpu-1",
        "pod default/q: on node a",
        f"  {resource}: gpu.example.com/a/gpu-0",
        "2 of 2 fit",
    ]
    assert result.stderr == ""
    third = run(write(SERVING + asking("p", f"{resource}: 3")))
    assert third.exit_code == 1
    assert "node b: container-0-request-0: needs 3, 2 available" in third.stdout


def test_extended_resources_get_the_devices_that_the_scheduler_gives(
    run: Callable[..., Result], write: Write, dray_cluster: Callable[..., Any]
) -> None:
    node = "\n    ---\n    apiVersion: v1\n    kind: Node\n    metadata: {name: b}\n"
    claimed = pod("p", "resourceClaimTemplateName: one-gpu").replace(
        "image: i", 'image: i, resources: {limits: {"example.com/gpu": 1}}'
    )
    path = write(SERVING + node + claimed)
    [row] = json.loads(run(path, "-o", "json").stdout)
    mine = {result["device"] for claim in row["claims"] for result in claim["allocation"]["devices"]["results"]}
    assert row["claims"][-1]["requestMappings"] == [
        {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
    ]
    cluster = dray_cluster(Path(path))
    cluster.wait_for("Pod", "p", lambda each: each["spec"].get("nodeName") == "b")
    found = {
        each["metadata"]["name"]: [one["device"] for one in each["status"]["allocation"]["devices"]["results"]]
        for each in cluster.list("ResourceClaim")
    }
    special = next(name for name in found if "extended-resources" in name)
    assert found[special] == [one["device"] for one in row["claims"][-1]["allocation"]["devices"]["results"]]
    assert {device for devices in found.values() for device in devices} == mine


def test_resources_that_the_node_has_itself_need_no_devices(run: Callable[..., Result], write: Write) -> None:
    node = """
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: a}
    status: {allocatable: {example.com/gpu: "4"}}
    """
    assert run(write(SERVING + node + asking("p", "example.com/gpu: 3"))).stdout.splitlines() == [
        "pod default/p: on node a",
        "1 of 1 fit",
    ]


def test_what_is_not_looked_at_is_said(run: Callable[..., Result], write: Write) -> None:
    result = run(write(CLUSTER + asking("p", "example.com/gpu: 1")))
    assert (result.exit_code, result.stdout) == (0, "nothing to allocate\n")
    assert result.stderr == (
        "note: Pod default/p requests example.com/gpu, which no DeviceClass in the files provides: not checked\n"
    )
    member = pod("p", "resourceClaimTemplateName: one-gpu", extra="schedulingGroup: {podGroupName: g}")
    result = run(write(CLUSTER + member))
    assert result.stderr == "note: pods of a group are placed one by one here, not together: g\n"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("image: i", "image: 5"), "spec.containers[0].image: expected a string, found a number (5)"),
        (("resourceClaimTemplateName", "resourceClaimTemplate"), "resourceClaimTemplate"),
    ],
)
def test_a_pod_that_an_api_server_refuses_is_an_error(
    run: Callable[..., Result], write: Write, change: tuple[str, str], complaint: str
) -> None:
    bad = pod("p", "resourceClaimTemplateName: one-gpu").replace(*change)
    result = run(write(CLUSTER + bad + claim("bad", 1).replace("count: 1", "count: -1")))
    assert result.exit_code == 2
    assert "Pod p: spec" in result.stderr
    assert complaint in result.stderr
    assert "m.yaml:32:" in result.stderr.splitlines()[-1]


def test_admin_access_needs_a_label_of_the_namespace_that_is_given(run: Callable[..., Result], write: Write) -> None:
    namespace = "\n    ---\n    apiVersion: v1\n    kind: Namespace\n    metadata: {name: default, labels: {LABEL}}\n"
    admin = claim("all", 1).replace("count: 1", "adminAccess: true")
    refused = run(write(CLUSTER + namespace.replace("LABEL", "a: b") + admin))
    assert refused.exit_code == 2
    assert "adminAccess: Forbidden: admin access to devices requires the" in refused.stderr
    labelled = namespace.replace("LABEL", 'resource.kubernetes.io/admin-access: "true"')
    assert run(write(CLUSTER + labelled + admin)).exit_code == 0
    assert run(write(CLUSTER + admin)).exit_code == 0


def test_nodes_that_say_the_same_are_one_line(run: Callable[..., Result], write: Write) -> None:
    others = gpus("c", "gpu-0") + gpus("d", "gpu-0")
    lines = run(write(CLUSTER + others + claim("huge", 3))).output.splitlines()
    assert lines[1:-1] == ["  3 nodes (a, c, d): gpus: needs 3, 1 available", "  node b: gpus: needs 3, 2 available"]
