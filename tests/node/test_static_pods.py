"""Static pods: from files to processes, with mirrors at the API server, and without a server."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace

import pytest

from dray.client.api import ApiClient
from dray.client.clock import SystemTime
from dray.client.errors import ConnectionFailed
from dray.node.static_pods import StaticPodError, StaticPods, static_pod
from dray.server.security.users import node_user
from dray.testing.cluster import LocalCluster
from dray.testing.kubelet.double import QUICK
from tests.node.machines import NODE, Machine, pod, ready, shell, states

NAME = f"web-{NODE}"
TIMING = replace(QUICK, file_check=0.05)


def write(folder, script, **spec):
    made = pod("web", shell(script), **spec)
    del made["spec"]["nodeName"], made["metadata"]["namespace"]
    made["metadata"]["labels"] = {"app": "web"}
    # In one step, so that nobody reads half of it.
    (folder / ".new").write_text(json.dumps(made))
    (folder / ".new").rename(folder / "web.json")


@pytest.fixture
async def machine(tmp_path):
    (tmp_path / "manifests").mkdir()
    async with LocalCluster(controllers=["serviceaccount"]) as cluster:
        machine = Machine(cluster, tmp_path, manifests=tmp_path / "manifests", timing=TIMING)
        await machine.start()
        yield machine
        await machine.stop()
        await machine.clean()


def hash_of(found):
    return found["metadata"]["annotations"]["kubernetes.io/config.hash"]


async def test_a_static_pod_runs_and_has_a_mirror_that_comes_back(machine, tmp_path):
    write(tmp_path / "manifests", "sleep 1000")
    mirror = await machine.until(NAME, ready)
    annotations = mirror["metadata"]["annotations"]
    assert annotations["kubernetes.io/config.mirror"] == hash_of(mirror)
    assert annotations["kubernetes.io/config.source"] == "file"
    assert mirror["metadata"]["labels"] == {"app": "web"}
    assert [each["kind"] for each in mirror["metadata"]["ownerReferences"]] == ["Node"]
    assert ("PodScheduled", "True") in [(each["type"], each["status"]) for each in mirror["status"]["conditions"]]
    run = states(mirror)["c0"]["running"]
    await machine.cluster.delete("Pod", NAME)
    other = await machine.until(NAME, lambda each: each["metadata"]["uid"] != mirror["metadata"]["uid"] and ready(each))
    assert states(other)["c0"]["running"] == run
    # The next agent finds it running.
    await machine.stop()
    await machine.start()
    again = await machine.until(NAME, ready)
    assert states(again)["c0"]["running"] == run


async def test_a_file_that_changes_restarts_the_pod_and_one_that_goes_ends_it(machine, tmp_path):
    write(tmp_path / "manifests", "sleep 1000")
    first = await machine.until(NAME, ready)
    write(tmp_path / "manifests", "sleep 2000")
    second = await machine.until(NAME, lambda each: hash_of(each) != hash_of(first) and ready(each))
    assert second["spec"]["containers"][0]["command"][-1] == "sleep 2000"
    (found,) = await machine.agent.runtime.containers()
    assert found.pod_uid == hash_of(second)
    (tmp_path / "manifests/web.json").unlink()
    await machine.until(NAME, None)
    async with asyncio.timeout(20):
        while await machine.agent.runtime.containers():
            await asyncio.sleep(0.05)


async def test_it_runs_while_the_server_is_away_and_is_shown_when_it_comes(tmp_path):
    (tmp_path / "manifests").mkdir()
    write(tmp_path / "manifests", f"echo x >> {tmp_path}/ran; sleep 1000")
    async with LocalCluster(controllers=["serviceaccount"]) as cluster:
        machine = Machine(cluster, tmp_path, manifests=tmp_path / "manifests", timing=TIMING)
        away = Away(cluster.client_of(node_user(NODE)).transport)
        starting = asyncio.create_task(machine.start(ApiClient(away)))
        async with asyncio.timeout(20):
            while not (tmp_path / "ran").exists():
                await asyncio.sleep(0.05)
        away.is_back = True
        await starting
        await machine.until(NAME, ready)
        assert (tmp_path / "ran").read_text() == "x\n"
        await machine.stop()
        await machine.clean()


class Away:
    """A server that cannot be reached until it is back."""

    def __init__(self, transport):
        self.is_back = False
        self._transport = transport

        self.watch_seconds = transport.watch_seconds

    async def send(self, request):
        self.check()
        return await self._transport.send(request)

    async def stream(self, request):
        self.check()
        return await self._transport.stream(request)

    def check(self):
        if not self.is_back:
            raise ConnectionFailed("away", sent=False)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "x"}]}, "may not reference resourceclaims"),
        ({"serviceAccountName": "robot"}, "may not reference a service account"),
        ({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}, "may not reference secrets"),
        ({"volumes": [{"name": "v", "configMap": {"name": "c"}}]}, "may not reference configmaps"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        ({"tolerations": 5}, "spec.tolerations: expected a list"),
        ({"containers": None}, "spec.containers: Required value"),
    ],
)
def test_what_needs_the_server_is_refused(tmp_path, spec, said):
    write(tmp_path, "true", **spec)
    with pytest.raises(StaticPodError, match=said):
        static_pod(tmp_path / "web.json", NODE, "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(("text", "said"), [("{", "1:"), ("kind: Job\n", "not a v1 Pod"), ("---\n", "0 documents")])
def test_what_is_no_pod_is_refused(tmp_path, text, said):
    (tmp_path / "web.yaml").write_text(text)
    with pytest.raises(StaticPodError, match=said):
        static_pod(tmp_path / "web.yaml", NODE, "2026-01-01T00:00:00Z")


@pytest.mark.parametrize("namespace", ["../..", "a/b", "A", "x" * 64, ".."])
def test_a_namespace_that_is_no_name_is_refused(tmp_path, namespace):
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace}, "spec": spec}
    (tmp_path / "web.yaml").write_text(json.dumps(pod))
    with pytest.raises(StaticPodError, match=r"metadata\.namespace: .* is not the name of a namespace"):
        static_pod(tmp_path / "web.yaml", NODE, "2026-01-01T00:00:00Z")


def test_pipes_links_to_nothing_and_huge_files_are_told_about_once_and_hold_up_no_other(tmp_path, caplog):
    write(tmp_path, "true")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "link.yaml").symlink_to("nothing")
    (tmp_path / "around.yaml").symlink_to("around.yaml")
    (tmp_path / "directory.yaml").mkdir()
    with open(tmp_path / "huge.yaml", "wb") as file:
        file.truncate(1 << 40)
    found = {}
    static = StaticPods(tmp_path, NODE, found.update, SystemTime())
    for _ in range(3):
        static.scan()
    assert [each["metadata"]["name"] for each in found.values()] == [NAME]
    told = {record.args[0].name: record.args[1] for record in caplog.records}
    assert told == {
        "pipe.yaml": "is not a regular file",
        "link.yaml": "No such file or directory",
        "around.yaml": "Too many levels of symbolic links",
        "huge.yaml": "has more than 1048576 bytes",
    }
    assert len(caplog.records) == len(told)
