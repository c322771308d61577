"""Claims for volumes are watched where the server has them; where it has not, they are no obstacle."""

import asyncio
from contextlib import suppress

import pytest

from dray.client.errors import ApiError, ConnectionFailed
from dray.client.informer import Informers
from dray.client.interface import WatchEvent
from dray.scheduling.cluster.volumes import VolumeClaims
from dray.scheduling.scheduler import Scheduler
from dray.scheduling_loop import volumes
from tests import gpus

POD = gpus.pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])


async def test_a_pod_waits_for_a_claim_that_is_not_there(virtual_cluster):
    await virtual_cluster.create(POD)
    await virtual_cluster.quiet()
    found = await virtual_cluster.get("Pod", "p")
    assert "nodeName" not in found["spec"]
    assert 'persistentvolumeclaim "data" not found' in found["status"]["conditions"][0]["message"]


async def test_where_the_server_has_no_volumes_they_are_no_obstacle():
    server, scheduler = Server(), Scheduler()
    server.served = []
    await volumes.follow(server, Informers(server), scheduler, lambda: 0.0, lambda: None)
    assert problem(scheduler, "data") is None


class Server:
    """Has claims for volumes, and is not reached at first."""

    def __init__(self):
        self.faults = [ConnectionFailed("refused", sent=False)]
        self.events = asyncio.Queue()
        self.forbidden = False
        self.served = ["persistentvolumeclaims"]

    async def request(self, method, path):
        assert (method, path) == ("GET", "/api/v1")
        if self.faults:
            raise self.faults.pop()
        return {"resources": [{"name": name} for name in ("pods", *self.served)]}

    async def list(self, resource, *, limit):
        if self.forbidden:
            raise ApiError(403, reason="Forbidden", message="may not list persistentvolumeclaims")
        return {"items": [claim("data")][:limit]}

    async def list_all(self, resource, **_):
        assert resource == volumes.CLAIMS
        return {"kind": "PersistentVolumeClaimList", "items": [claim("data")], "metadata": {"resourceVersion": "1"}}

    async def watch(self, resource, **_):
        while True:
            yield await self.events.get()


def claim(name):
    return {"metadata": {"namespace": "default", "name": name, "resourceVersion": "1"}}


def problem(scheduler, name):
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
    return scheduler.state.volumes.problem({**POD, "metadata": {"namespace": "default"}, "spec": {"volumes": [volume]}})


async def test_a_server_that_has_them():
    server, scheduler, woken = Server(), Scheduler(), []
    informers = Informers(server)
    running = asyncio.create_task(informers.run())
    await volumes.follow(server, informers, scheduler, lambda: 0.0, lambda: woken.append(True))
    assert (problem(scheduler, "data"), len(woken)) == (None, 1)
    assert problem(scheduler, "more") is not None
    server.events.put_nowait(WatchEvent("ADDED", claim("more")))
    server.events.put_nowait(WatchEvent("DELETED", claim("data")))
    while len(woken) < 3:
        await asyncio.sleep(0.001)
    assert problem(scheduler, "data") is not None
    assert problem(scheduler, "more") is None
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_who_may_not_read_them_places_pods_all_the_same():
    server, scheduler = Server(), Scheduler()
    server.forbidden = True
    await volumes.follow(server, Informers(server), scheduler, lambda: 0.0, lambda: None)
    assert problem(scheduler, "missing") is None


class Provisioning:
    """A server on which somebody provisions volumes, or takes the node off a claim again."""

    def __init__(self, known, *, gives_up=False):
        self._known = known
        self._gives_up = gives_up
        self.patched = []

    async def patch(self, resource, name, body, *, namespace):
        self.patched.append((resource.plural, name, body["metadata"]["annotations"]))
        bound = {} if self._gives_up else {"pv.kubernetes.io/bind-completed": "yes"}
        metadata = {"namespace": namespace, "name": name, "annotations": bound}
        self._known.put({"metadata": metadata, "spec": {} if self._gives_up else {"volumeName": "pv"}})


async def test_a_claim_that_waits_for_its_first_consumer_gets_its_node_and_is_waited_for():
    known = VolumeClaims()
    server = Provisioning(known)
    await volumes.VolumeWriter(server, known, lambda: 0.0).provision((claim("data"),), "n", lambda: True)
    selected = {"volume.kubernetes.io/selected-node": "n"}
    assert server.patched == [("persistentvolumeclaims", "data", selected)]


async def test_a_claim_for_which_there_can_be_no_volume_on_the_node_is_given_up():
    known, moments = VolumeClaims(), iter([0.0] * 4 + [5.0] * 4 + [700.0] * 100)
    writer = volumes.VolumeWriter(Provisioning(known, gives_up=True), known, lambda: next(moments))
    with pytest.raises(volumes.NotProvisioned, match='"data"'):
        await writer.provision((claim("data"),), "n", lambda: True)
