"""Player: runs dray's scheduler on the objects of a case, in virtual time, until nothing happens any more.

It does what the scheduling loop and the controllers do on a cluster: it binds pods, writes claims, evicts pods and
creates them again. Nothing fails, and a pod that is bound runs at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from dray.api.objects import Key, Object, is_deleting, key_of, owners_of, spec_of, status_of, uid_of
from dray.api.times import text_of
from dray.scheduling.eviction.stale_gangs import StaleGangs
from dray.scheduling.model.actions import Action, Bind, BindGroup, ClaimWrite, Refuse, RefuseGroup
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.kai.policy import KaiQueues
from dray.scheduling.quota.kueue.policy import KueueQueues
from dray.scheduling.scheduler import Options, Scheduler
from dray.testing.conformance.groups.stored_objects import StoredObjects, in_order, kind_of

START: Final = 1893456000.0
"""The first of January 2030, when every case begins."""
_MOST_DECISIONS: Final = 20_000
_MOST_ROUNDS: Final = 80
_KUEUE: Final = "kueue.x-k8s.io"
_KEPT_METADATA: Final = ("name", "namespace", "labels", "annotations", "ownerReferences")


class Endless(Exception):
    """The scheduler goes on deciding and never comes to rest."""


class Player:
    def __init__(
        self,
        objects: Iterable[Object] = (),
        *,
        recreate: bool = False,
        evict: bool = True,
        linger: Collection[str] = (),
        stale_gangs: bool = False,
        options: Options | None = None,
    ) -> None:
        """With `recreate` an evicted pod is created again at once. Without `evict` evictions are only recorded.

        Pods named in `linger` stay in deletion when they are evicted. With `stale_gangs` gangs that have lost too many
        pods are evicted.
        """
        self.errors: list[str] = []
        self.evicted: list[Key] = []
        """Evicted pods in order; a pod that was evicted twice is there twice."""
        self.refusals: dict[str, str] = {}
        """The last message about each pod or group that found no place, by name."""
        self.now = START
        self.scheduler = Scheduler(options, report=lambda what, error: self.errors.append(f"{what}: {error!r}"))
        self.stored = StoredObjects(self.scheduler)
        self._recreate = recreate
        self._evict = evict
        self._linger = frozenset(linger)
        self._stale = StaleGangs(self.scheduler.state) if stale_gangs else None
        documents = in_order(objects)
        self._serve({kind_of(document) for document in documents})
        for document in documents:
            self.put(document)

    def _serve(self, kinds: Collection[str]) -> None:
        state = self.scheduler.state
        state.groups.served.add("scheduling.k8s.io")
        if {"ClusterQueue", "LocalQueue"} & set(kinds):
            state.queues.serve("ClusterQueue")
            state.groups.served.add(_KUEUE)
            state.groups.topologies.served.add(_KUEUE)

    # Objects

    def put(self, document: Object) -> None:
        self.stored.put(document, self.now)

    def remove(self, kind: str, name: str) -> None:
        self.stored.remove(kind, "default", name, self.now)

    def pods(self) -> dict[str, Object]:
        """Pods by name."""
        return {key_of(pod)[1]: pod for pod in self.stored.of_kind("Pod")}

    def node_of_pods(self) -> dict[str, str | None]:
        """The node of each pod by the name of the pod; None for a pod that waits."""
        return {name: spec_of(pod).get("nodeName") for name, pod in self.pods().items()}

    def placed(self) -> dict[str, str]:
        """The nodes of pods that have one, by `namespace/name`."""
        pods = list(self.stored.of_kind("Pod"))
        return {"/".join(key_of(pod)): node for pod in pods if (node := spec_of(pod).get("nodeName"))}

    def evicted_names(self) -> set[str]:
        return {name for _, name in self.evicted}

    # Decisions

    def settle(self, quiet: int = 3, seconds: float = 20.0) -> None:
        """Carries out decisions until so many rounds of virtual time bring no change."""
        calm = 0
        for _ in range(_MOST_ROUNDS):
            changed = [self.do(action) for action in self.later(seconds)]
            changed += self._evict_beside_scheduler()
            calm = 0 if any(changed) else calm + 1
            if calm >= quiet:
                return
        raise Endless(f"after {_MOST_ROUNDS} rounds: evicted {self.evicted[-12:]}")

    def later(self, seconds: float) -> list[Action]:
        """The next decisions: the time goes on until there are some, or until it is over."""
        end = self.now + seconds
        found = self._decisions()
        while not found and (due := self.scheduler.due()) is not None and due <= end:
            self.now = max(self.now, due)
            found = self._decisions()
        if not found:
            self.now = end
            found = self._decisions()
        return found

    def _decisions(self) -> list[Action]:
        found: list[Action] = []
        for _ in range(_MOST_DECISIONS):
            action = self.scheduler.next(self.now)
            if action is not None:
                found.append(action)
            elif not self.scheduler.interrupted:
                return found
        raise Endless(f"{_MOST_DECISIONS} decisions at one time")

    def _evict_beside_scheduler(self) -> list[bool]:
        """Evicts what controllers evict from time to time: stale gangs, and pods of queues that are stopped."""
        state, changed = self.scheduler.state, []
        if self._stale is not None and self._evict:
            changed += [self._evict_pod(pod) for _, pods in self._stale.overdue(self.now) for pod in pods]
        kai, kueue = state.queues.system(KaiQueues), state.queues.system(KueueQueues)
        if kai.tree:
            kai.count_outside(state.nodes.values())
        if self._evict:
            changed += [self._evict_pod(pod) for pod, _ in kueue.drained()]
        return changed

    # Actions

    def do(self, action: Action) -> bool:
        """Carries out a decision; returns True if an object changed."""
        if isinstance(action, Bind):
            return self._bind((action,))
        if isinstance(action, BindGroup):
            return self._bind(action.binds)
        if isinstance(action, RefuseGroup):
            self.refusals[action.group.key.name] = action.message
            claims: Iterable[Object] = action.release
        else:
            self.refusals[action.pod.key[1]] = action.message
            claims = _claims_to_release(action)
        changed = [self._release(claim) for claim in claims]
        if action.preemption is not None:
            changed += [self._evict_pod(victim) for victim in action.preemption.victims]
        return any(changed)

    def _bind(self, binds: Iterable[Bind]) -> bool:
        for bind in binds:
            for write in bind.writes:
                self._write(bind, write)
        for bind in binds:
            pod = self.stored.get("Pod", *bind.pod.key)
            if pod is None:
                raise ValueError(f"bound a pod that does not exist: {bind.pod.key}")
            self.scheduler.bound(bind, self.now)
            status = {**status_of(pod), "phase": "Running", "startTime": text_of(self.now)}
            self.put({**pod, "spec": {**pod["spec"], "nodeName": bind.node}, "status": status})
        return True

    def _write(self, bind: Bind, write: ClaimWrite) -> None:
        namespace, name = bind.pod.key
        claim: Object | None
        if write.special:
            owner = {"kind": "Pod", "name": name, "uid": bind.pod.uid, "controller": True}
            metadata = {
                "name": f"{name}-special",
                "namespace": namespace,
                "uid": self.stored.new_uid("special"),
                "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
                "ownerReferences": [owner],
            }
            claim = {**write.claim, "kind": "ResourceClaim", "metadata": metadata}
        else:
            claim = self.stored.get("ResourceClaim", namespace, key_of(write.claim)[1])
        if claim is None:
            raise ValueError(f"allocated a claim that does not exist: {key_of(write.claim)}")
        status = dict(status_of(claim))
        if write.allocation is not None:
            status["allocation"] = write.allocation
        status["reservedFor"] = [*(status.get("reservedFor") or ()), write.consumer]
        self.scheduler.written(bind, write, self.stored.keep({**claim, "status": status}), self.now)

    def _release(self, claim: Object) -> bool:
        namespace, name = key_of(claim)
        known = self.stored.get("ResourceClaim", namespace or "default", name)
        status = status_of(known or {})
        if known is None or status.get("reservedFor") or not status.get("allocation"):
            return False
        self.put({**known, "status": {}})
        return True

    # Evictions

    def _evict_pod(self, victim: Pod) -> bool:
        pod = self.stored.get("Pod", *victim.key)
        if pod is None or uid_of(pod) != victim.uid or is_deleting(pod):
            return False
        namespace, name = victim.key
        self.evicted.append(victim.key)
        if not self._evict:
            return False
        if name in self._linger:
            self.put({**pod, "metadata": {**pod["metadata"], "deletionTimestamp": text_of(self.now)}})
            return True
        self.delete_pod(name, namespace)
        if self._recreate:
            metadata = {key: value for key, value in pod["metadata"].items() if key in _KEPT_METADATA}
            spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
            metadata["creationTimestamp"] = text_of(self.now)
            self.put({**pod, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})
        return True

    def delete_pod(self, name: str, namespace: str = "default") -> None:
        """Deletes the pod with the claims that it owns, and removes it from the claims that it uses."""
        uid = uid_of(self.stored.remove("Pod", namespace, name, self.now))
        for claim in self.stored.of_kind("ResourceClaim"):
            users = status_of(claim).get("reservedFor") or []
            left = [user for user in users if user["uid"] != uid]
            if any(owner.get("uid") == uid for owner in owners_of(claim)):
                self.stored.remove("ResourceClaim", *key_of(claim), self.now)
            elif len(left) < len(users):
                status = {**status_of(claim), "reservedFor": left} if left else {}
                self.put({**claim, "status": status})


def _claims_to_release(action: Refuse) -> list[Object]:
    return [claim for claim in (action.release, action.discard) if claim is not None]
