"""kubectl against `dray up`: devices that are given back, taken away and fought for; a Job; looking into pods."""

from __future__ import annotations

import json
import os
import pty
import re
import socket
import subprocess
import urllib.request
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from tests.cli.running import eventually
from tests.cli.simulated.conftest import A100, KUBECTL, Up

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="needs kubectl")

TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus-%(count)d}
spec:
  spec:
    devices:
      requests:
      - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: %(count)d}}
---
"""
SPEC = """
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  nodeSelector: {kubernetes.io/hostname: %(node)s}
  resourceClaims: [{name: gpus, resourceClaimTemplateName: gpus-%(count)d}]
  containers:
  - name: main
    image: busybox
    command: [sh, -c, %(script)s]
    resources: {claims: [{name: gpus}]}
"""


def pod(name: str, count: int = 8, script: str = "exec sleep 999", more: str = "") -> str:
    """With GPUs of the machine that has eight."""
    spec = SPEC % {"node": A100, "count": count, "script": json.dumps(script)}
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n{more}{spec}---\n"


def apply(up: Up, text: str) -> None:
    (up.folder / "manifest.yaml").write_text(text)
    up.kubectl("apply", "-f", str(up.folder / "manifest.yaml"))


def runs(up: Up, name: str) -> bool:
    return bool(up.named("pods").get(name, {}).get("status", {}).get("phase") == "Running")


def held(up: Up, name: str) -> set[str]:
    """The devices of a pod's claim."""
    claims: list[Any] = [each for each in up.items("resourceclaims") if each["metadata"]["name"].startswith(f"{name}-")]
    return {result["device"] for each in claims for result in each["status"]["allocation"]["devices"]["results"]}


def test_devices_of_a_deleted_pod_are_used_again(up: Up) -> None:
    apply(up, TEMPLATE % {"count": 8} + pod("first"))
    eventually(lambda: runs(up, "first"))
    before = held(up, "first")
    apply(up, pod("second"))
    eventually(lambda: "8 in use by default/first" in up.kubectl("describe", "pod", "second").stdout)
    up.kubectl("delete", "pod", "first")
    eventually(lambda: runs(up, "second"))
    assert held(up, "second") == before


def test_a_taint_rule_evicts(up: Up) -> None:
    apply(up, TEMPLATE % {"count": 1} + pod("victim", count=1))
    eventually(lambda: runs(up, "victim"))
    (device,) = held(up, "victim")
    rule = f"""
apiVersion: resource.k8s.io/v1beta2
kind: DeviceTaintRule
metadata: {{name: broken}}
spec:
  deviceSelector: {{driver: gpu.nvidia.com, pool: {A100}, device: {device}}}
  taint: {{key: example.com/broken, effect: NoExecute}}
"""
    try:
        apply(up, rule)
        eventually(lambda: "victim" not in up.named("pods"))
        row = up.dray("devices", "--state", "tainted").stdout.splitlines()[1]
        assert re.search(rf"{A100} .* {device} .* tainted \(example.com/broken:NoExecute\)", row)
    finally:
        up.kubectl("delete", "devicetaintrule", "broken")


def test_a_more_important_pod_takes_the_devices_of_another(up: Up) -> None:
    priority = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: urgent}\nvalue: 1000\n---\n"
    apply(up, TEMPLATE % {"count": 8} + priority + pod("usual"))
    eventually(lambda: runs(up, "usual"))
    apply(up, pod("important", more="  priorityClassName: urgent\n"))
    eventually(lambda: runs(up, "important"))
    assert "usual" not in up.named("pods")
    assert "Preempted by pod default/important" in up.kubectl("get", "events").stdout


def test_a_job_of_fifty_pods_on_eight_gpus(up: Up, tmp_path: Path) -> None:
    # Whoever has a GPU that another pod has too cannot make the directory, and fails.
    gpu = "nvidia-smi -L | grep -o 'GPU-[0-9a-f-]*'"
    script = f"gpu={tmp_path}/$({gpu}); mkdir $gpu && sleep 0.1 && rmdir $gpu && echo $JOB_COMPLETION_INDEX done"
    job = """
apiVersion: batch/v1
kind: Job
metadata: {name: many}
spec:
  completions: 50
  parallelism: 50
  backoffLimit: 0
  completionMode: Indexed
  template:
    spec:
"""
    spec = indent(SPEC % {"node": A100, "count": 1, "script": json.dumps(script)}, "    ")
    apply(up, TEMPLATE % {"count": 1} + job + spec)
    up.kubectl("wait", "--for=condition=Complete", "job/many", "--timeout=110s")
    assert up.named("jobs")["many"]["status"]["succeeded"] == 50
    said = up.kubectl("logs", "-l", "job-name=many", "--tail", "-1", "--max-log-requests", "50").stdout.splitlines()
    assert sorted(said, key=lambda line: int(line.split()[0])) == [f"{number} done" for number in range(50)]
    up.kubectl("delete", "job", "many")


def test_looking_into_a_pod(up: Up, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        serving = free.getsockname()[1]
    serve = f"echo ready; exec python3 -u -m http.server {serving} --bind 127.0.0.1"
    apply(up, TEMPLATE % {"count": 1} + pod("web", count=1, script=serve))
    eventually(lambda: runs(up, "web"))
    config = ("--kubeconfig", str(up.config))
    following = subprocess.Popen([str(KUBECTL), *config, "logs", "-f", "web"], stdout=subprocess.PIPE, text=True)
    forwarding = None
    try:
        assert following.stdout is not None
        assert following.stdout.readline() == "ready\n"
        assert following.stdout.readline().startswith(f"Serving HTTP on 127.0.0.1 port {serving}")
        forward = [str(KUBECTL), *config, "port-forward", "web", f":{serving}"]
        forwarding = subprocess.Popen(forward, stdout=subprocess.PIPE, text=True)
        assert forwarding.stdout is not None
        port = re.findall(rf"127\.0\.0\.1:(\d+) -> {serving}", forwarding.stdout.readline())[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
            assert answer.status == 200
        refused = up.kubectl("exec", "web", "--", "sh", "-c", "nvidia-smi -L; exit 3", check=False)
        assert (refused.returncode, refused.stdout.count("GPU-")) == (3, 1)
        assert terminal(up, "exec", "-it", "web", "--", "sh", "-c", "tty; exit 4") == (4, True)
        (tmp_path / "in.txt").write_text("copied")
        up.kubectl("cp", str(tmp_path / "in.txt"), f"web:{tmp_path}/there.txt")
        up.kubectl("cp", f"web:{tmp_path}/there.txt", str(tmp_path / "out.txt"))
        assert (tmp_path / "out.txt").read_text() == "copied"
        assert re.search(r"^web +\d+m +\d+Mi", up.kubectl("top", "pod", "web").stdout, re.MULTILINE)
        up.kubectl("delete", "pod", "web")
        # The log ends with the container.
        assert following.wait(60) == 0
    finally:
        for each in filter(None, (following, forwarding)):
            each.kill()
            each.communicate()


def terminal(up: Up, *arguments: str) -> tuple[int, bool]:
    """The exit status of kubectl on a terminal, and whether the command saw one too."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(KUBECTL), "--kubeconfig", str(up.config), *arguments], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:
        # Nobody has the other end open any more.
        pass
    finally:
        os.close(ours)
    return process.wait(60), b"/dev/pts/" in seen
