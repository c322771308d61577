"""Node agent: the kubelet's role on a machine without one.

It registers the node, watches the pods that are bound to it and gives each a worker. DRA drivers register with it as
with a kubelet. When it is cancelled the pods go on running; the next agent on the same directory takes over.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from dray.api.objects import Object, key_of, uid_of
from dray.api.pods import node_of
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.clock import SystemTime, TimeOfDay
from dray.client.errors import ClientError
from dray.client.events import EventRecorder
from dray.client.informer import Informer
from dray.client.interface import Selection
from dray.client.retries import Backoff
from dray.node import root_lock
from dray.node.agent_options import AgentOptions
from dray.node.container_config import PodSetup
from dray.node.container_devices import prepared_cdi_ids
from dray.node.dra_node import DraNode
from dray.node.errors import NodeError
from dray.node.eviction.pressure import REASON as EVICTED
from dray.node.eviction.pressure import Pressure
from dray.node.host_parts import HostParts, HostPod
from dray.node.mirror_pods import MirrorPods, is_mirror
from dray.node.node_parts import NodeParts
from dray.node.node_registration import NodeFacts, NodeRegistration
from dray.node.pod_admission import PodAdmission, Refusal
from dray.node.pod_status_writer import PODS
from dray.node.pod_worker import PodWorker
from dray.node.runtimes.interface import StartError
from dray.process.descriptors import watch_descriptors
from dray.process.tasks import end_tasks, lasting

T = TypeVar("T")
_logger = logging.getLogger(__name__)
_RESTARTS: Final = Backoff(first=1.0, longest=60.0, jitter=0.0)


class NodeAgent:
    def __init__(self, client: ApiClient, options: AgentOptions, *, time: TimeOfDay | None = None) -> None:
        self.options = options
        self.runtime = options.runtime
        self._client = client
        self._time = time or SystemTime()
        self._events = EventRecorder(client, "kubelet", time=self._time)
        self.setup = PodSetup(
            client,
            options.root,
            options.node,
            host_ip=options.address,
            api_server=options.api_server,
            time=self._time,
        )
        self.dra = DraNode(
            client,
            options.node,
            options.root,
            pods=self.active_pods,
            health_changed=self._health_changed,
            timing=options.timing,
            time=self._time,
        )
        self._pods = Informer(client, PODS, selection=Selection(fields=f"spec.nodeName={options.node}"))
        self._workers: dict[str, PodWorker] = {}
        self._registration: NodeRegistration | None = None
        self._mirrors = MirrorPods(client, lambda: self._registration.node if self._registration is not None else {})
        self._admission = PodAdmission()
        self._static: Mapping[str, Object] = {}
        self._pressure = Pressure(options.root, options.eviction, self._evictable, self._events, self._pressure_changed)
        self._host = HostParts(
            client, options.host_parts, options.root, options.node, options.address, self._mirrors.of, self._time
        )
        self._want_mirrors()
        self._tasks: set[asyncio.Task[None]] = set()
        self.ready = asyncio.Event()
        """Set once the node is registered and the pods that are bound to it are known."""

    async def run(self) -> None:
        """Registers the node and runs its pods until it is cancelled; the pods keep running then."""
        facts = NodeFacts(
            self.options.node,
            self.options.address,
            self.options.root,
            self.options.labels,
            tuple(self.options.taints),
            self.options.port,
            await self.runtime.version(),
            resources=self.options.resources,
        )
        registration = NodeRegistration(
            self._client, facts, self._time, lambda: self._pressure.conditions, images=self.runtime.images
        )
        self._registration = registration
        async with root_lock.held(self.options.root), self.dra, asyncio.TaskGroup() as group:
            self._start(group, self._events.run, "recording of events")
            self._start(group, self.runtime.run, "runtime")
            self._start(group, watch_descriptors, "watch of descriptors")
            # Containers of an earlier agent stay off the CPUs of claims that it prepared.
            self._start(group, self._follow_claims, "shared CPUs")
            self._start_static(group)
            self._start(group, registration.run, "registration of the node")
            await registration.registered.wait()
            self._pods.add_handler(self._pod_changed)
            self._start(group, self._pods.run, "watch of pods")
            await self._pods.synced()
            self._start(group, self._mirrors.run, "mirror pods")
            self._start(group, self._pressure.run, "watch of pressure on the node")
            self._start(group, self._host.run, "pods of host processes")
            self._start(group, self._forget_unknown, "removal of pods that are gone")
            self.ready.set()
            try:
                await asyncio.Event().wait()
            finally:
                await end_tasks(self._tasks)

    def _start(self, group: asyncio.TaskGroup, work: Callable[[], Awaitable[None]], name: str) -> None:
        """Starts a part of the agent. A part that fails is restarted, because pods need the other parts."""
        group.create_task(lasting(work, name), name=name)

    def _pressure_changed(self) -> None:
        if self._registration is not None:
            self._registration.changed()

    def _evictable(self) -> list[PodWorker]:
        return [worker for worker in self._workers.values() if not worker.state.ended]

    # What others ask

    def active_pods(self) -> Iterable[Object] | None:
        """Pods of the node that have not ended here; None before they are known."""
        if not self._pods.has_synced:
            return None
        return [worker.pod for worker in self._workers.values() if not worker.state.ended]

    def pods(self) -> list[Object]:
        return [worker.pod for worker in self._workers.values()]

    def workers(self) -> list[PodWorker]:
        return list(self._workers.values())

    def worker(self, namespace: str, name: str) -> PodWorker | None:
        # Of two pods with the same name, return the one that was made later.
        for worker in reversed(self._workers.values()):
            metadata = worker.pod["metadata"]
            if (metadata.get("namespace"), metadata["name"]) == (namespace, name):
                return worker
        return None

    def host_pod(self, namespace: str, name: str) -> HostPod | None:
        """Returns a pod whose process the agent did not start; None if there is none."""
        return self._host.find(namespace, name)

    # Pods

    def _pod_changed(self, change: Change) -> None:
        pod = change.object
        if is_mirror(pod):
            self._mirror_changed(pod, deleted=change.type == "DELETED")
            return
        worker = self._workers.get(uid_of(pod))
        if change.type == "DELETED":
            if worker is not None:
                worker.vanish()
        elif worker is not None:
            worker.update(pod)
        elif node_of(pod) == self.options.node:
            self._employ(pod)

    def _employ(self, pod: Object, mirror: Callable[[], Object | None] | None = None) -> PodWorker:
        address = self.options.address
        parts = NodeParts(self._client, self.runtime, self.setup, self.dra, self._events, self._time, address)
        worker = PodWorker(pod, parts, mirror, self._refusal if mirror is None else None)
        self._workers[uid_of(pod)] = worker
        task = asyncio.create_task(self._work(worker), name=f"pod {pod['metadata']['name']}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return worker

    async def _refusal(self, worker: PodWorker) -> Refusal | None:
        """Returns why the pod of the worker cannot run now, or not beside the pods before it; None if it can run."""
        if said := self._pressure.refusal(worker.pod):
            return Refusal(EVICTED, said)
        before = itertools.takewhile(lambda each: each is not worker, self._workers.values())
        others = [earlier.pod for earlier in before if earlier.takes_room]
        registration = self._registration
        if registration is None or not registration.node:
            return None
        found = self._admission.refusal(worker.pod, registration.node, others)
        if found is None:
            return None
        # The node may have changed since it was read, such as its labels.
        return self._admission.refusal(worker.pod, await registration.read(), others)

    async def _work(self, worker: PodWorker) -> None:
        """Restarts a worker that fails; other pods keep running. The new worker ends a pod that is to be removed."""
        for delay in _RESTARTS.delays():
            stopping = worker.is_stopping
            try:
                await worker.run()
                break
            except (NodeError, StartError, ClientError, OSError) as error:
                _logger.warning("Pod %s/%s: its worker failed: %s", *key_of(worker.pod), error)
            except Exception:
                _logger.exception("Pod %s/%s: its worker failed", *key_of(worker.pod))
            await (asyncio.sleep(delay) if stopping else worker.pause(delay))
        self._workers.pop(uid_of(worker.pod), None)
        if worker.is_static:
            self._employ_static()

    # Static pods

    def _start_static(self, group: asyncio.TaskGroup) -> None:
        if self.options.manifests is not None:
            # Imported only where it is needed.
            from dray.node.static_pods import StaticPods

            files = StaticPods(self.options.manifests, self.options.node, self._static_changed, self._time)
            files.scan()
            self._start(group, partial(files.run, self.options.timing.file_check), "static pods")

    def _static_changed(self, pods: Mapping[str, Object]) -> None:
        self._static = pods
        self._want_mirrors()
        for uid, worker in self._workers.items():
            if worker.is_static and uid not in pods:
                worker.stop()
        self._employ_static()

    def _want_mirrors(self) -> None:
        self._mirrors.want({**self._host.static_pods(), **{key_of(pod): pod for pod in self._static.values()}})

    def _employ_static(self) -> None:
        """Starts a worker for each static pod that has none, unless a worker still ends a pod with the same name."""
        busy = {key_of(worker.pod) for worker in self._workers.values() if worker.is_static}
        for uid, pod in self._static.items():
            if uid not in self._workers and key_of(pod) not in busy:
                self._employ(pod, partial(self._mirrors.of, pod))

    def _mirror_changed(self, mirror: Object, *, deleted: bool) -> None:
        self._mirrors.seen(mirror, deleted=deleted)
        self._host.changed(key_of(mirror))
        for worker in self._workers.values():
            if worker.is_static and key_of(worker.pod) == key_of(mirror):
                worker.changed()

    def _health_changed(self, uids: set[str]) -> None:
        for uid in uids:
            if (worker := self._workers.get(uid)) is not None:
                worker.changed()

    async def _forget_unknown(self) -> None:
        """Ends the containers of pods that were deleted while no agent ran, and removes their files."""
        found = await _retried(self.runtime.pods, "the pods on this machine cannot be listed")
        there = found | self.setup.uids()
        known = {uid_of(pod) for pod in (*self._pods.cache, *self._host.static_pods().values())} | set(self._workers)
        gone = (there | self.dra.manager.users()) - known
        # Their devices are given to others once their containers have ended.
        self.dra.manager.kept.update(gone)
        await asyncio.gather(*(_retried(partial(self._forget, uid), f"pod {uid} is not removed") for uid in gone))

    async def _follow_claims(self) -> None:
        await self.runtime.follow_claims(prepared_cdi_ids(self.dra.manager.cache))

    async def _forget(self, uid: str) -> None:
        await self.runtime.remove_sandbox(uid)
        await self.setup.remove(uid)
        self.dra.manager.kept.discard(uid)
        await self.dra.manager.unprepare(uid)
        await self._follow_claims()


async def _retried(work: Callable[[], Awaitable[T]], failing: str) -> T:
    """Calls `work` until it succeeds; logs its failures."""
    for delay in _RESTARTS.delays():
        try:
            return await work()
        except (NodeError, StartError, ClientError, OSError) as error:
            _logger.warning("%s: %s", failing, error)
        except Exception:
            _logger.exception("%s", failing)
        await asyncio.sleep(delay)
    raise AssertionError("there is always another delay")
