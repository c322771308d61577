"""`dray snapshot`, and the commands that read its file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import Result

from tests.cli.lab import CLASS, claim, pod, template
from tests.cli.queued import FLAVOR, gang, queue
from tests.cli.queued import pod as queued_pod
from tests.cli.test_explain_live import Server
from tests.server.process import listening

Dray = Callable[..., Result]
SECRET = "hunter2"
POD = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: careless, annotations: {{other.example.com/token: {SECRET}, pod-group-name: kept}}}}
spec:
  nodeName: a
  imagePullSecrets: [{{name: {SECRET}}}]
  volumes:
  - {{name: s, secret: {{secretName: {SECRET}}}}}
  - {{name: c, configMap: {{name: {SECRET}}}}}
  - {{name: p, projected: {{sources: [{{serviceAccountToken: {{audience: {SECRET}, path: t}}}}]}}}}
  hostAliases: [{{ip: 10.0.0.1, hostnames: [{SECRET}.example.com]}}]
  initContainers:
  - {{name: i, image: i, env: [{{name: A, value: {SECRET}}}], command: [{SECRET}]}}
  containers:
  - name: c
    image: i
    command: [sh, -c, "{SECRET}"]
    args: ["{SECRET}"]
    workingDir: /{SECRET}
    env: [{{name: TOKEN, value: {SECRET}}}, {{name: B, valueFrom: {{secretKeyRef: {{name: {SECRET}, key: k}}}}}}]
    envFrom: [{{secretRef: {{name: {SECRET}}}}}]
    livenessProbe: {{exec: {{command: [{SECRET}]}}}}
    lifecycle: {{preStop: {{exec: {{command: [{SECRET}]}}}}}}
    volumeMounts: [{{name: s, mountPath: /{SECRET}}}]
---
apiVersion: v1
kind: Secret
metadata: {{name: s}}
stringData: {{password: {SECRET}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: c}}
data: {{password: {SECRET}}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: job, annotations: {{other.example.com/token: {SECRET}}}}}
spec:
  suspend: true
  template:
    metadata: {{annotations: {{other.example.com/token: {SECRET}}}}}
    spec: {{restartPolicy: Never, containers: [{{name: c, image: i, args: ["{SECRET}"]}}]}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: configured}}
spec: {{config: [{{opaque: {{driver: gpu.example.com, parameters: {{password: {SECRET}}}}}}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: t, annotations: {{a: {SECRET}}}}}
spec:
  metadata: {{annotations: {{a: {SECRET}}}}}
  spec:
    devices:
      requests: [{{name: gpu, exactly: {{deviceClassName: gpu}}}}]
      config: [{{opaque: {{driver: gpu.example.com, parameters: {{password: {SECRET}}}}}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: configured, annotations: {{a: {SECRET}}}}}
spec:
  devices:
    requests: [{{name: gpu, exactly: {{deviceClassName: gpu}}}}]
    config: [{{opaque: {{driver: gpu.example.com, parameters: {{password: {SECRET}}}}}}}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: disks}}
provisioner: disks.example.com
parameters: {{password: {SECRET}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: disk, annotations: {{a: {SECRET}}}}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteOnce]
  csi: {{driver: disks.example.com, volumeHandle: h, volumeAttributes: {{password: {SECRET}}}}}
---
"""


COMMANDS = [
    ("devices",),
    ("devices", "-o", "json"),
    ("devices", "--state", "free", "-o", "name"),
    ("devices", "--node", "c"),
    ("topology",),
    ("topology", "a", "-o", "json"),
    ("queue",),
    ("queue", "-o", "json"),
    ("queue", "red"),
    ("queue", "nowhere"),
    ("explain", "podgroup/g"),
    ("explain", "claim/c1"),
    ("explain", "claim/c2", "-o", "json"),
    ("explain", "job/nothing"),
    ("explain", "pod/nothing"),
    ("explain", "pod/single"),
]


@pytest.fixture
def server(run: Dray, tmp_path: Path) -> Iterator[Server]:
    with listening(kubeconfig=tmp_path / "kubeconfig"):
        made = Server(run, tmp_path / "kubeconfig")
        made.apply(CLASS)
        made.node("a", 4)
        made.node("b", 2, taints=[{"key": "k", "effect": "NoSchedule"}])
        yield made


def test_the_file_has_none_of_the_secrets_and_what_the_scheduler_reads(server: Server) -> None:
    server.apply(POD)
    server.patch("Pod", "careless", {"status": {"message": SECRET, "containerStatuses": [_failed()]}}, "status")
    given = {"driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}
    allocation = {
        "devices": {
            "results": [{**given, "request": "gpu"}],
            "config": [{"source": "FromClaim", "opaque": {"driver": "gpu.example.com", "parameters": {"p": SECRET}}}],
        }
    }
    status = {"allocation": allocation, "devices": [{**given, "data": {"password": SECRET}}]}
    server.patch("ResourceClaim", "configured", {"status": status}, "status")
    server.patch("Node", "a", {"metadata": {"annotations": {"other.example.com/token": SECRET}}})
    text = gzip.decompress(Path(server.snapshot()).read_bytes()).decode()
    assert SECRET not in text
    assert '"pod-group-name":"kept"' in text
    assert '"name":"careless"' in text
    assert '"allocatable":{"cpu":"8"' in text


def _failed() -> dict[str, object]:
    ended = {"terminated": {"exitCode": 1, "message": SECRET, "reason": "Error"}}
    return {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 1, "state": ended}


def test_commands_answer_from_a_snapshot_as_from_the_cluster(run: Dray, queue_server: Server, tmp_path: Path) -> None:
    server = queue_server
    server.apply(CLASS + claim("c1") + claim("c2", 9))
    server.apply(pod("p1", "resourceClaimName: c1") + pod("p2", "resourceClaimName: c2"))
    server.node("a", 4)
    server.hold("c1", "p1", "a", "gpu-1")
    server.apply(FLAVOR + queue("red", 2) + queue("blue", 3) + gang("g", "red", 9) + queued_pod("single", "blue"))
    snapshot = server.snapshot()
    for command in COMMANDS:
        live = run(*command, "--kubeconfig", str(tmp_path / "kubeconfig"))
        again = run(*command, "--snapshot", snapshot)
        assert (again.exit_code, again.output) == (live.exit_code, live.output), command


def test_allocate_places_the_pods_of_files_beside_those_of_the_cluster(
    run: Dray, server: Server, tmp_path: Path
) -> None:
    server.apply(template("one") + claim("c1") + pod("p1", "resourceClaimName: c1", nodeName="a"))
    server.hold("c1", "p1", "a", "gpu-0")
    server.apply(pod("waits", "resourceClaimTemplateName: one"))
    file = tmp_path / "pods.yaml"
    file.write_text("".join(pod(f"new-{number}", "resourceClaimTemplateName: one") for number in range(4)))
    result = run("allocate", str(file), "--snapshot", server.snapshot())
    assert result.exit_code == 1
    assert "pod default/new-0: on node a\n  new-0-devices, gpu: gpu.example.com/a/gpu-1" in result.stdout
    assert "3 of 4 fit" in result.stdout
    explained = run("explain", "pod/new-3", str(file), "--snapshot", server.snapshot())
    assert explained.exit_code == 1
    assert "node a" in explained.stdout


def test_wrong_files_and_options_are_named(run: Dray, server: Server, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no")
    for name, told in (("text", "not a snapshot"), ("nothing", "cannot read"), (".", "cannot read")):
        result = run("devices", "--snapshot", str(tmp_path / name))
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")
        assert told in result.stderr
    both = run("devices", "--snapshot", server.snapshot(), "--context", "x")
    assert both.exit_code == 2
    assert "leave --kubeconfig and --context out" in both.stderr
    unwritable = run("snapshot", "-o", str(tmp_path / "no/where"), "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert unwritable.exit_code == 2
    assert "cannot write" in unwritable.stderr


ODD = (None, 7, -1.5, "", "x", "9" * 5000, [], {}, [7], {"a": 7}, True)


def changed_somewhere(value: Any, random: Random) -> Any:
    """Returns the value with something odd in one place."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        name = random.choice(sorted(value))
        return {**value, name: changed_somewhere(value[name], random)}
    if isinstance(value, list) and value and random.random() < 0.9:
        place = random.randrange(len(value))
        return [*value[:place], changed_somewhere(value[place], random), *value[place + 1 :]]
    return random.choice(ODD)


def test_objects_that_no_server_would_store_give_an_error_and_no_traceback(
    run: Dray, server: Server, tmp_path: Path
) -> None:
    server.apply(claim("c1") + claim("c2", 9) + pod("p1", "resourceClaimName: c1") + pod("p2", "resourceClaimName: c2"))
    server.hold("c1", "p1", "a", "gpu-1")
    header, *lines = gzip.decompress(Path(server.snapshot()).read_bytes()).splitlines()
    wanted = [number for number, line in enumerate(lines) if json.loads(line)["kind"] not in ("Namespace", "Event")]
    deep = lines.copy()
    deep[wanted[0]] = lines[wanted[0]][:-2] + b',"deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    worlds = [deep]
    random = Random(7)
    for _ in range(60):
        number = random.choice(wanted)
        line = json.loads(lines[number])
        line["object"] = changed_somewhere(line["object"], random)
        worlds.append([*lines[:number], json.dumps(line).encode(), *lines[number + 1 :]])
    file = tmp_path / "odd.snapshot"
    commands = (("devices",), ("topology",), ("queue",), ("explain", "pod/p2"), ("plan", "--drain", "a"))
    for world in worlds:
        file.write_bytes(gzip.compress(b"\n".join([header, *world]) + b"\n"))
        result = run(*random.choice(commands), "--snapshot", str(file))
        assert result.exit_code in (0, 1, 2, 3)
