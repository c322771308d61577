"""`kill -9` of the scheduler in the middle of what it writes for a group, with real processes.

Claims of all pods of a gang are written before the first pod is bound. Whenever the scheduler dies, the next one ends
what can be ended and takes back the rest: never are some pods of a gang on nodes and the others not.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from dray.cli import main
from tests.cli.running import eventually, running
from tests.scheduling_loop.api_servers import DrayServer

NODES, GPUS = 4, 8
SIZE = NODES * GPUS


def manifests() -> str:
    found: list[Any] = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]},
        },
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "g"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": SIZE}}},
        },
    ]
    for number in range(NODES):
        name = f"n{number}"
        spec = {
            "driver": "gpu.example.com",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{device}"} for device in range(GPUS)],
        }
        found.append({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        found.append(
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
        )
    for number in range(SIZE):
        name = f"w{number}"
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
        found.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": name},
                "spec": {"devices": {"requests": [request]}},
            }
        )
        container = {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}
        claims = [{"name": "gpu", "resourceClaimName": name}]
        pod = {"schedulingGroup": {"podGroupName": "g"}, "resourceClaims": claims, "containers": [container]}
        found.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod})
    return "\n---\n".join(map(json.dumps, found))


class World:
    """An API server without scheduler, and the gang in it."""

    def __init__(self, url: str, kubeconfig: Path) -> None:
        self.url = url
        self.kubeconfig = kubeconfig

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        result = CliRunner().invoke(main, [*arguments, "--kubeconfig", str(self.kubeconfig)], input=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def _all(self, path: str) -> list[Any]:
        with urlopen(f"{self.url}{path}", timeout=30) as answer:
            items = json.load(answer)["items"]
            assert isinstance(items, list)
            return items

    def make_ready(self, node: str) -> None:
        """There is nobody else to do it."""
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        for path, body in (("/status", {"status": {"allocatable": amounts}}), ("", {"spec": {"taints": None}})):
            headers = {"content-type": "application/merge-patch+json"}
            url = f"{self.url}/api/v1/nodes/{node}{path}"
            urlopen(Request(url, json.dumps(body).encode(), headers, method="PATCH"), timeout=30).close()

    def bound(self) -> int:
        return sum(bool(each["spec"].get("nodeName")) for each in self._all("/api/v1/pods"))

    def devices(self) -> list[tuple[str, str]]:
        found = []
        for each in self._all("/apis/resource.k8s.io/v1/resourceclaims"):
            results = each.get("status", {}).get("allocation", {}).get("devices", {}).get("results") or ()
            found += [(one["pool"], one["device"]) for one in results]
        return found

    def after(self, path: str, mark: bytes, number: int, then: threading.Event) -> threading.Thread:
        """Sets the event when so many changes were seen that have the mark."""

        def follow() -> None:
            seen = 0
            with urlopen(f"{self.url}{path}?watch=true", timeout=60) as answer:
                for line in answer:
                    seen += mark in line
                    if seen >= number:
                        then.set()
                        return

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        return thread


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    server = DrayServer(tmp_path)
    server.start()
    try:
        made = World(server.url, tmp_path / "kubeconfig")
        made.run("apply", "-f", "-", stdin=manifests())
        for number in range(NODES):
            made.make_ready(f"n{number}")
        yield made
    finally:
        server.stop()


def crash(world: World, path: str, mark: bytes, number: int) -> None:
    """A scheduler is killed when so many of its writes were seen."""
    now = threading.Event()
    thread = world.after(path, mark, number, now)
    with running("scheduler", "--kubeconfig", str(world.kubeconfig)) as scheduler:
        assert now.wait(60)
        scheduler.process.send_signal(signal.SIGKILL)
        scheduler.process.wait(30)
    thread.join(30)
    # The next one need not wait until the lease of the dead one is over.
    world.run("delete", "lease", "dray-scheduler", "--namespace", "kube-system")


CLAIMS = ("/apis/resource.k8s.io/v1/resourceclaims", b'"allocation"')
PODS = ("/api/v1/pods", b'"nodeName"')


@pytest.mark.parametrize(("path", "mark", "number"), [(*CLAIMS, 1), (*CLAIMS, SIZE // 2), (*PODS, 1)])
def test_the_next_scheduler_brings_the_gang_to_its_end(world: World, path: str, mark: bytes, number: int) -> None:
    crash(world, path, mark, number)
    with running("scheduler", "--kubeconfig", str(world.kubeconfig)):
        eventually(lambda: world.bound() == SIZE)
    devices = world.devices()
    assert len(devices) == len(set(devices)) == SIZE


def test_a_gang_for_which_there_is_no_place_any_more_holds_nothing(world: World) -> None:
    crash(world, *CLAIMS, 2)
    if world.bound():
        pytest.skip("it was faster than the signal")
    assert world.devices()
    world.run("delete", "node", "n0")
    with running("scheduler", "--kubeconfig", str(world.kubeconfig)):
        eventually(lambda: not world.devices())
        assert world.bound() == 0
