"""ReplayCluster: the scheduler with the objects of a cluster, in one process. What it decides is carried out at once.

It does what the scheduling loop and the controllers do on a cluster: binds pods, writes claims, deallocates them, and
creates evicted pods again. The meter follows every allocation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from dray.allocation import POLICIES
from dray.api.objects import Key, Object, key_of, status_of, uid_of
from dray.api.pods import is_terminal, node_of
from dray.api.resource_claims import allocation_results, results_of
from dray.replay.device_units import published_devices
from dray.replay.meter import Meter, cpu_of
from dray.replay.workloads import World
from dray.scheduling.core.options import Options
from dray.scheduling.model.actions import Action, Bind, BindGroup, ClaimWrite, Refuse
from dray.scheduling.scheduler import Scheduler
from dray.snapshot.listing import fill

_CLAIM = "ResourceClaim"
ObjectKey = tuple[str, Key]
"""Kind, and namespace with name."""


class ReplayCluster:
    def __init__(self, world: World, policy: str, seed: int) -> None:
        objects = world.objects
        self.errors: list[str] = []
        self.scheduler = Scheduler(
            Options(policy=POLICIES[policy], seed=seed),
            report=lambda what, error: self.errors.append(f"{what}: {error!r}"),
        )
        devices = published_devices(objects.get("ResourceSlice", ()))
        self.meter = Meter(devices, objects.get("Node", ()), world.drivers)
        self.now = 0.0
        self._versions = count(1)
        self._objects: dict[ObjectKey, Object] = {}
        self._uses: dict[Key, list[Key]] = {}
        """The claims that a pod uses, by pod."""
        self._made: set[Key] = set()
        """Claims that came with a workload."""
        listed = {kind: [self._kept(kind, each) for each in found] for kind, found in objects.items()}
        fill(self.scheduler, listed, self.now, self._unreadable, adopting=True)
        for claim in listed.get(_CLAIM, ()):
            self.meter.use(results_of(claim))
        for pod in listed.get("Pod", ()):
            if not is_terminal(pod):
                self.meter.use_cpu(node_of(pod), cpu_of(pod))

    def _unreadable(self, kind: str, obj: Object, error: Exception) -> None:
        self.errors.append(f"{kind} {'/'.join(filter(None, key_of(obj)))} cannot be read and is left out: {error}")

    # Objects

    def put(self, document: Object) -> None:
        """Creates an object. Claims come before the pods that name them, and are removed with the first of these."""
        kind, key = document["kind"], key_of(document)
        if kind == _CLAIM:
            self._made.add(key)
        elif kind == "Pod":
            names = [entry.get("resourceClaimName") for entry in document["spec"].get("resourceClaims") or ()]
            self._uses[key] = [(key[0], name) for name in names if (_CLAIM, (key[0], name)) in self._objects]
        self._put(kind, document)

    def remove(self, pods: Iterable[Key], others: Iterable[ObjectKey] = ()) -> None:
        """Removes pods with the claims that were made for them, and other objects that were made for them."""
        for key in pods:
            claims = self._uses.pop(key, ())
            uid = self._remove_pod(key)
            for claim in claims:
                if claim in self._made:
                    self._made.discard(claim)
                    self._remove(_CLAIM, claim)
                else:
                    self._unreserve(claim, uid)
        for kind, key in others:
            self._remove(kind, key)

    # Decisions

    def decisions(self) -> Iterator[Action]:
        """Yields the decisions of the scheduler; carries out each decision to bind before it yields it."""
        scheduler = self.scheduler
        while (action := scheduler.next(self.now)) is not None or scheduler.interrupted:
            if action is None:
                continue
            if not isinstance(action, Refuse):
                self._bind(action.binds if isinstance(action, BindGroup) else (action,))
            yield action

    def evict(self, action: Refuse) -> list[Key]:
        """Deallocates claims and evicts pods as a refusal asks for; returns the evicted pods, which wait again."""
        for claim in (*action.release, *action.discard):
            self._deallocate(key_of(claim))
        evicted = []
        for victim in action.preemption.victims if action.preemption is not None else ():
            pod = self._objects.get(("Pod", victim.key))
            if pod is not None:
                uid = self._remove_pod(victim.key)
                for used in self._uses.get(victim.key, ()):
                    self._unreserve(used, uid)
                evicted.append(victim.key)
                metadata = {**pod["metadata"], "uid": f"{pod['metadata']['uid']}-again"}
                spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
                status = {**status_of(pod), "phase": "Pending"}
                self._put("Pod", {**pod, "metadata": metadata, "spec": spec, "status": status})
        return evicted

    def _bind(self, binds: Iterable[Bind]) -> None:
        for bind in binds:
            for write in bind.writes:
                self._write(bind, write)
        for bind in binds:
            pod = self._objects["Pod", bind.pod.key]
            self.scheduler.bound(bind, self.now)
            status = {**status_of(pod), "phase": "Running"}
            self._put("Pod", {**pod, "spec": {**pod["spec"], "nodeName": bind.node}, "status": status})
            self.meter.use_cpu(bind.node, cpu_of(pod))

    def _write(self, bind: Bind, write: ClaimWrite) -> None:
        if write.special:
            namespace, name = bind.pod.key
            metadata = {"name": f"{name}-extended", "namespace": namespace, "uid": f"{bind.pod.uid}-extended"}
            claim = {**write.claim, "metadata": metadata}
            self._uses.setdefault(bind.pod.key, []).append(key_of(claim))
            self._made.add(key_of(claim))
        else:
            claim = self._objects[_CLAIM, key_of(write.claim)]
        status = dict(status_of(claim))
        if write.allocation is not None:
            status["allocation"] = write.allocation
            self.meter.use(allocation_results(write.allocation))
        status["reservedFor"] = [*(status.get("reservedFor") or ()), write.consumer]
        self.scheduler.written(bind, write, self._kept(_CLAIM, {**claim, "status": status}), self.now)

    def _deallocate(self, key: Key) -> None:
        claim = self._objects.get((_CLAIM, key))
        if claim is not None and results_of(claim) and not status_of(claim).get("reservedFor"):
            self.meter.release(results_of(claim))
            self._put(_CLAIM, {**claim, "status": {}})

    # The store

    def _put(self, kind: str, document: Object) -> None:
        self.scheduler.put(kind, self._kept(kind, document), self.now)

    def _kept(self, kind: str, document: Object) -> Object:
        metadata = {**document["metadata"], "resourceVersion": str(next(self._versions))}
        metadata.setdefault("uid", f"{kind}-{metadata['name']}")
        stored = {**document, "metadata": metadata}
        self._objects[kind, key_of(stored)] = stored
        return stored

    def _remove_pod(self, key: Key) -> str:
        """Returns the uid of the pod."""
        pod = self._remove("Pod", key)
        if pod is None:
            return ""
        if (node := node_of(pod)) and not is_terminal(pod):
            self.meter.use_cpu(node, -cpu_of(pod))
        return uid_of(pod)

    def _unreserve(self, key: Key, uid: str) -> None:
        """The pod uses the claim no longer; without users it is deallocated."""
        claim = self._objects.get((_CLAIM, key))
        if claim is not None:
            users = [user for user in status_of(claim).get("reservedFor") or () if user.get("uid") != uid]
            self._put(_CLAIM, {**claim, "status": {**status_of(claim), "reservedFor": users}})
            self._deallocate(key)

    def _remove(self, kind: str, key: Key) -> Object | None:
        document = self._objects.pop((kind, key), None)
        if document is not None:
            if kind == _CLAIM:
                self.meter.release(results_of(document))
            self.scheduler.remove(kind, document, self.now)
        return document
