"""The random walk of the scheduler alone, which takes a fraction of the time: server, controllers and kubelets are
played here.

What is decided is written a moment later or fails, who has to go takes its time, and watches are late. Devices with
taints that evict keep their pods: there is no controller for that here.
"""

import heapq
from contextlib import suppress
from itertools import count
from random import Random

from dray.api.times import text_of
from dray.client.interface import WatchEvent
from dray.scheduling.model.actions import Bind, BindGroup
from dray.scheduling.scheduler import Options, Scheduler
from dray.server.patches.merge_patch import merge_patch
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core
from tests.scheduling_loop.checker import Checker
from tests.scheduling_loop.pod_checker import Gang, PodChecker
from tests.scheduling_loop.queued_walk import (
    DEVICES,
    KAI_LABEL,
    KAI_LIMITS,
    LIMITS,
    WITH_QUEUES,
    QueuedSteps,
    kai_queues,
    limits_by_flavor,
    queues,
)
from tests.scheduling_loop.soundness import could_run, differences, keep_reserved, kept_off, told
from tests.scheduling_loop.walk_steps import CONSTRAINTS, NODES, REQUESTS, STEPS, Steps, network, slices_of

_PRIORITIES = {"low": 10, "high": 100}
_BEGINNING = 1893456000.0
_ORDER = (
    *("DeviceClass", "Node", "ResourceSlice", "DeviceTaintRule", "ResourceFlavor", "Cohort", "ClusterQueue"),
    *("LocalQueue", "Queue", "PodDisruptionBudget", "StorageClass", "PersistentVolume", "PersistentVolumeClaim"),
    *("CompositePodGroup", "PodGroup", "ResourceClaim", "Pod"),
)


class _Taken(Exception):
    """There is an object of that name."""


class CoreWalk(QueuedSteps, Steps, Core):
    def __init__(self, seed, system="", rate=0.08):
        """`system` is kueue, flavors (of Kueue, two of them) or kai; without one there are no queues."""
        self.random = Random(seed)
        self._chance = Random(seed + 1)
        self._rate = rate
        self._system = system
        if system == "kai":
            self.queue_label = KAI_LABEL
        self._later = []
        self._tickets = count()
        self._number = 0
        self._gangs, self._trees = {}, {}
        self.client = self
        self.pods = self._checker()
        self.devices = Checker([*(s for n in range(NODES) for s in slices_of(f"n{n}")), network()])
        super().__init__(gpus.device_class("share"), gpus.device_class("part"))
        self.now = _BEGINNING
        self._serve(self.scheduler)
        self.put(*self._queues())
        for number in range(NODES):
            _run(self._add_node(f"n{number}"))
        self.put(network())

    def _checker(self):
        if self._system == "flavors":
            return PodChecker(limits_by_flavor(2), DEVICES, lambda: self.now, flavor_of=self._flavor_of)
        limits = KAI_LIMITS if self._system == "kai" else LIMITS
        return PodChecker(limits, DEVICES, lambda: self.now, self.queue_label)

    def _flavor_of(self, node):
        """By its labels as they are; pods on a node that is gone have the first."""
        known = self.objects.get(("Node", node))
        return known["metadata"]["labels"]["zone"] if known is not None else "z0"

    def _serve(self, scheduler):
        scheduler.state.groups.served.add("scheduling.k8s.io")
        if self._system in ("kueue", "flavors"):
            scheduler.state.queues.serve("ClusterQueue")

    def _queues(self):
        if self._system == "kai":
            return kai_queues()
        return queues(2 if self._system == "flavors" else 1) if self._system else ()

    def gang_made(self, name, size):
        self.pods.gangs[name] = Gang(size)

    # Time

    def _at(self, delay, do):
        heapq.heappush(self._later, (self.now + delay, next(self._tickets), do))

    def _soon(self, do, most=0.02):
        self._at(self._chance.random() * most, do)

    def go_on(self, seconds):
        end = self.now + seconds
        for _ in range(20_000):
            for action in self.actions():
                self._carry_out(action)
            times = [self._later[0][0]] if self._later else []
            next_ = min([*times, *filter(None, [self.scheduler.due()])], default=end + 1)
            if next_ > end:
                self.now = end
                return
            self.now = max(self.now, next_)
            while self._later and self._later[0][0] <= self.now:
                heapq.heappop(self._later)[2]()
        raise AssertionError("there is no end to it")

    async def pause(self, seconds):
        self.go_on(seconds)

    # What the steps need

    async def _create(self, document):
        kind, name = document["kind"], document["metadata"]["name"]
        if (kind, name) in self.objects:
            raise _Taken
        spec, metadata = dict(document.get("spec") or {}), dict(document["metadata"])
        if "priorityClassName" in spec:
            spec["priority"] = _PRIORITIES[spec["priorityClassName"]]
        if kind == "PodDisruptionBudget":
            document = {**document, "status": {"disruptionsAllowed": self._chance.randrange(3)}}
        metadata["creationTimestamp"] = text_of(self.now)
        made = self.put({**document, "metadata": metadata, "spec": spec})
        if kind == "Pod" and any("resourceClaimTemplateName" in each for each in spec.get("resourceClaims") or ()):
            self._soon(lambda: self._generate(name, made["metadata"]["uid"]))

    def _generate(self, name, uid):
        """The claims of a pod."""
        pod = self._known("Pod", name, uid)
        statuses = []
        for entry in pod["spec"]["resourceClaims"] if pod is not None else ():
            template, claim = entry.get("resourceClaimTemplateName"), f"{name}-{entry['name']}"
            if template is None:
                continue
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
            members = {"constraints": CONSTRAINTS.get(template), "ownerReferences": [owner]}
            self.put(objects.claim(claim, REQUESTS[template], **members))
            statuses.append({"name": entry["name"], "resourceClaimName": claim})
        if statuses:
            self._patch_status(name, uid, resourceClaimStatuses=statuses)

    async def _try(self, doing):
        with suppress(_Taken):
            await doing

    async def _list(self, kind):
        return [each for (of, _), each in self.objects.items() if of == kind]

    async def _remove(self, kind, document):
        name = document["metadata"]["name"]
        if kind == "Pod":
            self._delete(name, document["metadata"]["uid"])
        elif kind != "ResourceClaim" or not _users(document):
            self.remove(kind, name)
        if kind == "Node":
            self._at(40, lambda: self._collect(name))

    async def patch(self, kind, name, body, **_):
        self.put(merge_patch(self.get(kind.kind, name), body))

    async def update(self, kind, document):
        self.put(document)

    # Server, controllers and kubelets

    def _tell(self, verb, document):
        if document["kind"] == "Pod":
            self.pods.take(WatchEvent("DELETED" if verb == "remove" else "MODIFIED", document))
        if document["kind"] == "ResourceClaim":
            self.devices.problems += self.devices.problems_of(
                [each for (kind, _), each in self.objects.items() if kind == "ResourceClaim"]
            )
        if document["kind"] == "Node" and self._system == "flavors":
            self.pods.nodes_changed()
        super()._tell(verb, document)

    def _known(self, kind, name, uid):
        found = self.objects.get((kind, name))
        return found if found is not None and found["metadata"]["uid"] == uid else None

    def _patch_status(self, name, uid, **members):
        if self._known("Pod", name, uid) is not None:
            self.change("Pod", name, status=members)

    def _delete(self, name, uid):
        pod = self._known("Pod", name, uid)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return
        if pod["spec"].get("nodeName") and self._chance.random() < 0.7:
            self.change("Pod", name, metadata={"deletionTimestamp": text_of(self.now)})
            self._soon(lambda: self._gone(name, uid), 6)
        else:
            self._gone(name, uid)

    def _gone(self, name, uid):
        if self._known("Pod", name, uid) is not None:
            self.remove("Pod", name)
            self._soon(lambda: self._clean_up(uid))

    def _clean_up(self, uid):
        """As the claim controller and the garbage collector do."""
        self._leave_claims(uid)
        for claim in _run(self._list("ResourceClaim")):
            if any(each["uid"] == uid for each in claim["metadata"].get("ownerReferences") or ()):
                self.remove("ResourceClaim", claim["metadata"]["name"])

    def _leave_claims(self, uid):
        for claim in _run(self._list("ResourceClaim")):
            left = [each for each in _users(claim) if each["uid"] != uid]
            if len(left) < len(_users(claim)):
                self.put({**claim, "status": {**claim["status"], "reservedFor": left} if left else {}})

    def _collect(self, node):
        """Pods of a node that is gone."""
        if ("Node", node) not in self.objects:
            for pod in _run(self._list("Pod")):
                if pod["spec"].get("nodeName") == node:
                    self._gone(pod["metadata"]["name"], pod["metadata"]["uid"])

    async def finish_pod(self):
        await super().finish_pod()
        for pod in await self._list("Pod"):
            if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                self._soon(lambda uid=pod["metadata"]["uid"]: self._leave_claims(uid))

    # What is decided

    def _carry_out(self, action):
        scheduler = self.scheduler

        def later(do, *more):
            # Whoever died has nothing written any more.
            self._soon(lambda: do(*more) if self.scheduler is scheduler else None)

        if isinstance(action, Bind | BindGroup):
            later(self._write_claims, [action] if isinstance(action, Bind) else action.binds, later)
        elif self._chance.random() < self._rate:
            later(lambda: scheduler.refusal_failed(action, self.now))
        else:
            self._make_room(action, later)

    def _make_room(self, action, later):
        preemption = action.preemption
        for claim in (*action.release, *action.discard):
            later(self._give_back, claim)
        if preemption is None:
            return
        for pod in action.pods:
            place = preemption.places.get(pod.uid)
            if place is not None:
                later(
                    lambda pod=pod, place=place: self._patch_status(pod.key[1], pod.uid, nominatedNodeName=place.node)
                )
        for victim in preemption.victims:
            later(self._delete, victim.key[1], victim.uid)

    def _nominate(self, pod, node):
        self._patch_status(pod.key[1], pod.uid, nominatedNodeName=node)

    def _give_back(self, claim):
        known = self._known("ResourceClaim", claim["metadata"]["name"], claim["metadata"]["uid"])
        if known is not None and not _users(known):
            self.put({**known, "status": {}})

    def _write_claims(self, binds, later):
        pods = [self._waiting(each.pod) for each in binds]
        writes = [(bind, each) for bind in binds for each in bind.writes]
        if self._chance.random() < self._rate or None in pods or not all(self._can_write(each) for _, each in writes):
            for bind in binds:
                self.scheduler.failed(bind, self.now)
            return
        for bind, write in sorted(writes, key=lambda each: each[1].allocation is None):
            self.write_one(bind, write)
        later(self._bind, binds)

    def _waiting(self, pod):
        known = self._known("Pod", pod.key[1], pod.uid)
        return known if known is not None and not known["metadata"].get("deletionTimestamp") else None

    def _can_write(self, write):
        if write.special:
            return True
        known = self._known("ResourceClaim", write.claim["metadata"]["name"], write.claim["metadata"]["uid"])
        has = known is not None and bool((known.get("status") or {}).get("allocation"))
        return known is not None and has == bool((write.claim.get("status") or {}).get("allocation"))

    def _bind(self, binds):
        for bind in binds:
            pod = self._waiting(bind.pod)
            if pod is None:
                self._leave_claims(bind.pod.uid)
                self.scheduler.failed(bind, self.now)
                continue
            name, uid = bind.pod.key[1], bind.pod.uid
            self.scheduler.bound(bind, self.now)
            self.objects["Pod", name] = {**pod, "spec": {**pod["spec"], "nodeName": bind.node}}
            # The watch may be late.
            self._soon(lambda name=name, uid=uid: self.put(known) if (known := self._known("Pod", name, uid)) else None)

    # The walk

    def step(self):
        steps = dict(WITH_QUEUES if self._system else STEPS)
        if self._system == "kai":
            # A queue of KAI cannot be stopped.
            del steps["stop_queue"]
        names, weights = zip(*steps.items(), strict=True)
        _run(getattr(self, self.random.choices(names, weights)[0])())
        self.go_on(self.random.random() ** 3 * 3)

    async def kill(self):
        self.pods.interrupted = self.now
        self.scheduler = self._fresh()

    def _fresh(self, **options):
        """A scheduler that knows what the server knows, and nothing else."""
        fresh = Scheduler(Options(**options))
        self._serve(fresh)
        for kind in _ORDER:
            for key, document in sorted(self.objects.items()):
                if key[0] == kind:
                    fresh.put(kind, document, self.now)
        return fresh

    def rest(self):
        """Nothing fails, and all has time to be done; gives what is not as it should be."""
        rate, self._rate = self._rate, 0
        self.go_on(120)
        self._rate = rate
        live, fresh = self.scheduler, self._fresh(reservation_seconds=0)
        with live.nominations.without_reservations():
            unlike = differences(live, fresh)
        keep_reserved(live, fresh)
        waiting = could_run(fresh, kept_off(live))
        return [*self.pods.problems, *self.devices.problems, *unlike, *waiting, *told(live, waiting)]


def _run(coroutine):
    """Nothing here waits for anything."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits for something")


def _users(claim):
    return (claim.get("status") or {}).get("reservedFor") or []
