"""Tokens of service accounts on the node: how long they are used, who may read them, and where the server is."""

import os
import stat
from datetime import UTC, datetime, timedelta

import pytest

from dray.node.container_config import PodSetup
from dray.node.environment import service_variables
from dray.node.pod_objects import PodObjects
from dray.testing.cluster import LocalCluster
from dray.testing.objects import pod


class Clock:
    def __init__(self):
        self.time = datetime.now(UTC).replace(microsecond=0)

    def now(self):
        return self.time


async def created(cluster, **spec):
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
    volume = {"name": "t", "projected": {"sources": [source]}}
    return await cluster.create(pod("p", volumes=[volume], **spec))


async def test_a_token_is_asked_for_again_after_four_fifths_of_its_life():
    clock = Clock()
    async with LocalCluster(time=clock) as cluster:
        made = await created(cluster)
        objects = PodObjects(cluster.client, clock)
        first = await objects.token(made, "", 3607)
        clock.time += timedelta(seconds=2880)
        assert await objects.token(made, "", 3607) == first
        assert await objects.token(made, "vault", 3607) != first
        clock.time += timedelta(seconds=10)
        second = await objects.token(made, "", 3607)
        assert second != first
        objects.forget(made["metadata"]["uid"])
        assert await objects.token(made, "", 3607) != second


@pytest.mark.parametrize(
    ("context", "mode", "owner"),
    [({}, 0o644, None), ({"runAsUser": 1234}, 0o600, 1234), ({"fsGroup": 4321}, 0o660, None)],
)
async def test_the_file_is_for_whoever_runs_the_containers(tmp_path, context, mode, owner):
    async with LocalCluster() as cluster:
        made = await created(cluster, securityContext=context)
        setup = PodSetup(cluster.client, tmp_path, "here", host_ip="127.0.0.1")
        await setup.prepare(made)
        found = os.stat(setup.volumes_of(made) / "t/token")
    if os.geteuid() == 0:
        assert stat.S_IMODE(found.st_mode) == mode
        assert owner is None or found.st_uid == owner
    for directory in ("pods", "persistent-volumes"):
        assert stat.S_IMODE((tmp_path / directory).stat().st_mode) == 0o700


def test_the_variables_of_the_server():
    assert service_variables("https://10.0.0.7:6443") == {
        "KUBERNETES_SERVICE_HOST": "10.0.0.7",
        "KUBERNETES_SERVICE_PORT": "6443",
        "KUBERNETES_SERVICE_PORT_HTTPS": "6443",
        "KUBERNETES_PORT": "tcp://10.0.0.7:6443",
        "KUBERNETES_PORT_6443_TCP": "tcp://10.0.0.7:6443",
        "KUBERNETES_PORT_6443_TCP_PROTO": "tcp",
        "KUBERNETES_PORT_6443_TCP_PORT": "6443",
        "KUBERNETES_PORT_6443_TCP_ADDR": "10.0.0.7",
    }
    assert service_variables("https://[fd00::1]:6443")["KUBERNETES_PORT"] == "tcp://[fd00::1]:6443"
    assert service_variables("http://127.0.0.1:8080") == service_variables("") == {}
