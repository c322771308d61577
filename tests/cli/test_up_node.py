"""`dray up --node`: pods run on this machine, with the CPUs that they claimed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from click.testing import Result

from dray.driver import DriverError
from dray.drivers.gpu.driver_files import find_driver_files
from tests.cli.running import eventually, running
from tests.cli.test_up import wait

Dray = Callable[..., Result]
TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-cpu}
spec:
  spec:
    devices:
      requests:
      - name: cpu
        exactly: {deviceClassName: dra.cpu, capacity: {requests: {dra.cpu/cpu: "1"}}}
---
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  restartPolicy: Never
  resourceClaims: [{name: cpu, resourceClaimTemplateName: one-cpu}]
  containers:
  - name: main
    image: python
    command: [python3, -c, "import os, time; print(os.getpid(), *os.sched_getaffinity(0), flush=True); time.sleep(999)"]
    resources: {claims: [{name: cpu}]}
---
"""


def pods(run: Dray, config: Path) -> dict[str, Any]:
    result = run("get", "pods", "-o", "json", "--kubeconfig", str(config))
    items = json.loads(result.stdout)["items"] if result.exit_code == 0 else []
    return {each["metadata"]["name"]: each for each in items}


def said(folder: Path, name: str) -> list[int]:
    """Process and CPUs, as the container sees them."""
    found = [each.read_text().split() for each in folder.glob(f"data/node/logs/default_{name}_*/main/0.log")]
    return [int(each) for words in found for each in words[3:]]


def log(url: str, name: str, namespace: str = "default") -> list[str]:
    """Its words; none while the container waits to start."""
    try:
        with urlopen(f"{url}/api/v1/namespaces/{namespace}/pods/{name}/log", timeout=30) as answer:
            return str(answer.read().decode()).split()
    except HTTPError as error:
        error.close()
        return []


def test_pods_get_different_cpus_and_one_that_asks_for_more_waits(run: Dray, tmp_path: Path) -> None:
    cpus = os.sched_getaffinity(0)
    if os.cpu_count() != 2 or len(cpus) != 2:
        pytest.skip("two pods and a third that waits need a machine of two CPUs")
    (tmp_path / "pods.yaml").write_text(TEMPLATE + "".join(POD % name for name in "abc"))
    config = tmp_path / "data/kubeconfig"
    with running("up", "--port", "0", "--plain", "--node", "--data", "data", cwd=tmp_path) as process:
        wait(process)
        assert run("apply", "-f", str(tmp_path / "pods.yaml"), "--kubeconfig", str(config)).exit_code == 0

        def two_run() -> list[str]:
            found = pods(run, config)
            ready = [name for name, each in found.items() if each["status"].get("phase") == "Running"]
            return ready if len(ready) == 2 and all(said(tmp_path, name) for name in ready) else []

        first, second = eventually(two_run)
        assert {said(tmp_path, first)[1], said(tmp_path, second)[1]} == cpus
        assert len(said(tmp_path, first)) == len(said(tmp_path, second)) == 2
        (waiting,) = set("abc") - {first, second}

        def reason() -> str:
            conditions = pods(run, config)[waiting]["status"].get("conditions") or ()
            return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")

        assert "1 of dra.cpu/cpu wanted, 0 left" in eventually(reason)
        for name in "abc":
            run("delete", "pod", name, "--kubeconfig", str(config))
        assert eventually(lambda: not pods(run, config))
        assert not any(Path(f"/proc/{said(tmp_path, name)[0]}").exists() for name in "ab" if said(tmp_path, name))
        assert process.stop(signal.SIGINT)[0] == 0


def test_a_pod_without_a_claim_stays_off_the_cpu_of_a_claim_until_that_is_gone(run: Dray, tmp_path: Path) -> None:
    cpus = os.sched_getaffinity(0)
    if len(cpus) < 2:
        pytest.skip("one CPU only")
    write_pod(tmp_path)
    (tmp_path / "claim.yaml").write_text(TEMPLATE + POD % "claims")
    config = tmp_path / "data/kubeconfig"
    up = ("up", "pod.yaml", "claim.yaml", "--port", "0", "--plain", "--node", "--data", "data")
    with running(*up, cwd=tmp_path) as process:
        lines = wait(process)
        if not _has_nvidia_driver():
            # One line, and everything else works.
            told = [line for line in lines if "gpu" in line.lower() or "nvidia" in line.lower()]
            assert told == ["gpu: none, NVIDIA's driver is not installed"]
        plain = int(eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
        _, own = eventually(lambda: said(tmp_path, "claims"))
        assert eventually(lambda: os.sched_getaffinity(plain) == cpus - {own})
        run("delete", "pod", "claims", "--kubeconfig", str(config))
        assert eventually(lambda: os.sched_getaffinity(plain) == cpus)
        run("delete", "pod", "p", "--kubeconfig", str(config))
        assert eventually(lambda: not pods(run, config))
        assert process.stop(signal.SIGINT)[0] == 0


def _has_nvidia_driver() -> bool:
    try:
        find_driver_files()
    except DriverError:
        return False
    return True


def write_pod(folder: Path) -> None:
    """A pod without claims that writes the id of its process to a file."""
    pod = POD.replace("  resourceClaims: [{name: cpu, resourceClaimTemplateName: one-cpu}]\n", "")
    pod = pod.replace("    resources: {claims: [{name: cpu}]}\n", "").replace(
        "print(", f"print(open('{folder}/pid', 'w').write(str(os.getpid())), "
    )
    (folder / "pod.yaml").write_text(pod % "p")


def test_without_data_pods_end_with_a_cluster_that_is_killed(tmp_path: Path) -> None:
    write_pod(tmp_path)
    with running("up", "pod.yaml", "--port", "0", "--plain", "--node", cwd=tmp_path) as process:
        wait(process)
        pid = eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        process.process.kill()
    assert eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_without_data_pods_end_with_the_cluster(run: Dray, tmp_path: Path) -> None:
    write_pod(tmp_path)
    audit = ("--audit-log", "audit.log")
    with running("up", "pod.yaml", "--port", "0", "--plain", "--node", *audit, cwd=tmp_path) as process:
        url = next(word for word in " ".join(wait(process)).split() if word.startswith("http://"))
        assert eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        # Its log is read through the server, which the node knows by its certificate.
        assert eventually(lambda: (tmp_path / "pid").read_text() in log(url, "p"))
        # The parts of the cluster are pods of the node: the log of one tells what the scheduler decided.
        host = socket.gethostname().lower()
        decided = f"Pod default/p bound to {host}"
        assert eventually(lambda: decided in " ".join(log(url, f"kube-scheduler-{host}", "kube-system")))
        assert eventually(lambda: "serves the API" in " ".join(log(url, f"kube-apiserver-{host}", "kube-system")))
        assert process.stop(signal.SIGINT)[0] == 0
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()
    # The agent had the rights of its node and no others.
    events = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    leases = [each for each in events if each.get("objectRef", {}).get("resource") == "leases"]
    by = {each["user"]["username"] for each in leases if each["objectRef"].get("namespace") == "kube-node-lease"}
    assert by == {f"system:node:{host}"}


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox, command: [sh, -c, "echo my log; exec sleep 999"]}]
"""


def test_a_job_has_failed_with_its_log_after_its_pods_were_ended(run: Dray, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    config = tmp_path / "data/kubeconfig"

    def job() -> tuple[str, str]:
        (found,) = pods(run, config).values() or ({"metadata": {"name": ""}, "status": {}},)
        return found["metadata"]["name"], found["status"].get("phase", "")

    with running("up", "job.yaml", "--port", "0", "--plain", "--node", "--data", "data", cwd=tmp_path) as process:
        url = next(word for word in " ".join(wait(process)).split() if word.startswith("http://"))
        name = eventually(lambda: job()[0])
        eventually(lambda: log(url, name) == ["my", "log"])
        ended = run("down", "--pods", "--data", str(tmp_path / "data"))
        assert ended.stdout.endswith("; 1 pod ended\n"), ended.output
        process.process.communicate(timeout=60)
    with running("up", "--port", "0", "--plain", "--node", "--data", "data", cwd=tmp_path) as process:
        url = next(word for word in " ".join(wait(process)).split() if word.startswith("http://"))
        assert eventually(lambda: job()[1] in ("Failed", "Succeeded") and job()) == (name, "Failed")
        assert log(url, name) == ["my", "log"]
        if kubectl := shutil.which("kubectl"):
            asked = [kubectl, "--kubeconfig", str(config), "logs", name]
            assert subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True).stdout == "my log\n"
        assert process.stop(signal.SIGINT)[0] == 0


WHO = """
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: Pod
metadata: {name: who, namespace: team}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: python
    command:
    - python3
    - -c
    - |
      import json, os, pathlib, ssl, urllib.request
      place = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
      url = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
      body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
      token = (place / "token").read_text()
      headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
      path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
      asking = urllib.request.Request(url + path, json.dumps(body).encode(), headers)
      context = ssl.create_default_context(cafile=place / "ca.crt")
      with urllib.request.urlopen(asking, context=context, timeout=20) as answer:
          print(json.load(answer)["status"]["userInfo"]["username"], (place / "namespace").read_text())
"""


def test_a_pod_asks_the_server_who_it_is(run: Dray, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("the token is mounted where root or user namespaces allow it")
    (tmp_path / "pods.yaml").write_text(WHO)
    with running("up", "--port", "0", "--node", "--data", "data", cwd=tmp_path) as process:
        wait(process)
        # Namespace and pod at once: the pod waits for the account of its namespace.
        config = str(tmp_path / "data/kubeconfig")
        assert run("apply", "-f", str(tmp_path / "pods.yaml"), "--kubeconfig", config).exit_code == 0

        def answer() -> list[str]:
            found = [each.read_text().split() for each in tmp_path.glob("data/node/logs/team_who_*/main/0.log")]
            return [word for words in found for word in words[3:]]

        assert eventually(answer) == ["system:serviceaccount:team:default", "team"]
