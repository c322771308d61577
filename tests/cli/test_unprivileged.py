"""`dray up --node` for a user who is not root: what can work does, and what cannot says so."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.cli.nobody import NOBODY, address, needs_user_namespaces, nobody, ready
from tests.cli.running import eventually

PODS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {a: "1"}
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec:
  restartPolicy: Never
  volumes: [{name: c, configMap: {name: c}}, {name: e, emptyDir: {}}]
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "id -u; cat /config/a; echo; echo x > /part/x; cat /scratch/new/part/x"]
    volumeMounts:
    - {name: c, mountPath: /config}
    - {name: e, mountPath: /scratch}
    - {name: e, mountPath: /part, subPath: new/part}
---
apiVersion: v1
kind: Pod
metadata: {name: other}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: busybox, command: ["true"], securityContext: {runAsUser: 1234}}
"""


def get(url: str) -> Any:
    try:
        with urlopen(url, timeout=30) as answer:
            return answer.read().decode()
    except HTTPError as error:
        error.close()
        return ""


def test_pods_run_with_volumes_and_what_needs_root_says_so() -> None:
    with nobody() as user:
        (user.folder / "pods.yaml").write_text(PODS)
        with user.running("up", "pods.yaml", "--port", "0", "--plain", "--node", "--data", "data") as process:
            _run_pods(ready(process))


def _run_pods(lines: list[str]) -> None:
    url = address(lines)
    pods = f"{url}/api/v1/namespaces/default/pods"
    assert "limits of cpu and memory are not enforced" in " ".join(lines) or os.access("/sys/fs/cgroup", os.W_OK)

    def state(name: str) -> Any:
        status = json.loads(get(f"{pods}/{name}"))["status"].get("containerStatuses") or [{"state": {}}]
        return status[0]["state"]

    assert eventually(lambda: state("other").get("waiting", {}).get("message")) == (
        "user 1234: only root runs processes of other users"
    )
    ended = eventually(lambda: state("plain").get("terminated") or state("plain").get("waiting", {}).get("message"))
    if isinstance(ended, str):
        # Without user namespaces nothing can be mounted.
        assert "--runtime podman" in ended
    else:
        assert ended["exitCode"] == 0
        assert get(f"{pods}/plain/log").split() == [str(NOBODY), "1", "x"]


def test_device_files_of_drivers_are_hidden_in_user_namespaces() -> None:
    needs_user_namespaces()
    up = ("up", "--port", "0", "--plain", "--node", "--data", "data")
    with nobody() as user, user.running(*up) as process:
        url, folder = address(ready(process)), user.folder
        lamp = folder / "lamp0"
        os.mkfifo(lamp)
        plugin = folder / "data/node/plugins/lamps.example.com"
        plugin.mkdir(parents=True, exist_ok=True)
        (plugin / "device-files.json").write_text(json.dumps([f"{folder}/lamp*"]))
        for path in (plugin.parent, plugin, plugin / "device-files.json", lamp):
            os.chown(path, NOBODY, NOBODY)
        script = f"test -p {lamp} && echo seen || echo hidden"
        container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
        pod = {"metadata": {"name": "looks"}, "spec": {"restartPolicy": "Never", "containers": [container]}}
        pods = f"{url}/api/v1/namespaces/default/pods"
        request = Request(pods, json.dumps(pod).encode(), {"content-type": "application/json"})
        with urlopen(request, timeout=30) as answer:
            assert answer.status == 201
        assert eventually(lambda: json.loads(get(f"{pods}/looks"))["status"]["phase"] == "Succeeded")
        assert get(f"{pods}/looks/log") == "hidden\n"
