"""Player: runs the scheduler on the objects of a cluster, in virtual time, until nothing happens any more.

It does what the scheduling loop and the controllers do on a cluster: it binds pods, writes claims, evicts pods and
creates them again. Nothing fails, and a pod that is bound runs at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from dray.api.objects import Key, Object, is_deleting, key_of, owners_of, spec_of, status_of, uid_of
from dray.api.times import text_of
from dray.planning.stored_objects import StoredObjects, in_order, kind_of
from dray.scheduling.eviction.stale_gangs import StaleGangs
from dray.scheduling.model.actions import Action, Bind, BindGroup, ClaimWrite, Refuse
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.kai.policy import KaiQueues
from dray.scheduling.quota.kueue.policy import KueueQueues
from dray.scheduling.scheduler import Options, Scheduler
from dray.scheduling_loop.preemption_reasons import preemption_reason

START: Final = 1893456000.0
"""The first of January 2030."""
_MOST_DECISIONS: Final = 20_000
_MOST_ROUNDS: Final = 80
_KUEUE: Final = "kueue.x-k8s.io"
_KEPT_METADATA: Final = ("name", "namespace", "labels", "annotations", "ownerReferences")


class Endless(Exception):
    """The scheduler goes on deciding and never comes to rest."""


class OutOfTime(Endless):
    """The time is over before the scheduler has come to rest."""


@dataclass(frozen=True, slots=True)
class Eviction:
    pod: Pod
    title: str = ""
    """The pod or group that the pod makes room for; empty if controllers evict it."""
    reason: str = ""
    reclaims: bool = False
    """Whether quota is reclaimed."""


class Player:
    def __init__(
        self,
        objects: Iterable[Object] = (),
        *,
        listed: Mapping[str, Sequence[Object]] | None = None,
        start: float = START,
        recreate: bool | Callable[[Object], bool] = False,
        evict: bool = True,
        linger: Collection[str] = (),
        stale_gangs: bool = False,
        options: Options | None = None,
        has_time: Callable[[], bool] = lambda: True,
    ) -> None:
        """`listed` are the lists of a cluster, by kind. `start` is the time, in seconds since 1970.

        With `recreate` an evicted pod is created again at once. Without `evict` evictions are only recorded.
        Pods named in `linger` stay in deletion when they are evicted. With `stale_gangs` gangs that have lost too many
        pods are evicted. As soon as `has_time` returns False, it decides nothing more and raises OutOfTime.
        """
        self._has_time = has_time
        self.errors: list[str] = []
        self.evicted: list[Key] = []
        """Evicted pods in order; a pod that was evicted twice is there twice."""
        self.refusals: dict[str, str] = {}
        """The last message about each pod or group that found no place, by name."""
        self.evictions: list[Eviction] = []
        """The same in full, with the preemptor and why."""
        self.reasons: dict[str, str] = {}
        """The last message about each pod that found no place, by uid."""
        self.recreated: dict[str, str] = {}
        """The uid of the pod that was created again, by the uid of the one that was evicted."""
        self.now = start
        self.scheduler = Scheduler(options, report=lambda what, error: self.errors.append(f"{what}: {error!r}"))
        self.stored = StoredObjects(self.scheduler)
        self._ended: list[Callable[[], None]] = []
        """Releases the claims of a pod that was evicted."""
        self._recreate = recreate if callable(recreate) else lambda _: recreate
        self._evict = evict
        self._linger = frozenset(linger)
        self._stale = StaleGangs(self.scheduler.state) if stale_gangs else None
        # Every pod of a large cluster may be decided on a few times.
        self._most_decisions = max(_MOST_DECISIONS, 4 * len((listed or {}).get("Pod", ())))
        if listed is not None:
            self.stored.load(listed, self.now, self._unreadable)
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

    def _unreadable(self, kind: str, obj: Object, error: Exception) -> None:
        self.errors.append(f"{kind} {'/'.join(filter(None, key_of(obj)))} cannot be read and is left out: {error}")

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
            changed += self._release_ended()
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
        for _ in range(self._most_decisions):
            if not self._has_time():
                raise OutOfTime("the time is over")
            action = self.scheduler.next(self.now)
            if action is not None:
                found.append(action)
            elif not self.scheduler.interrupted:
                return found
        raise Endless(f"{self._most_decisions} decisions at one time")

    def _release_ended(self) -> list[bool]:
        """Releases the claims of evicted pods, after the scheduler was told that the pods are gone.

        On a cluster a controller releases them a moment later. A pod that waits for the quota of an evicted pod may
        start on other devices then.
        """
        changed = []
        while self._ended:
            ended, self._ended = self._ended, []
            changed += [self.do(action) for action in self._decisions()]
            for release in ended:
                release()
        return changed

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
        self.refusals[action.group.key.name if action.group is not None else action.pod.key[1]] = action.message
        self.reasons |= dict.fromkeys((pod.uid for pod in action.pods), action.message)
        changed = [self._release(claim) for claim in (*action.release, *action.discard)]
        # Before the first pod is gone: then its queue is not known any more.
        evictions = self._evictions(action)
        return any([*changed, *[self._evict_pod(each.pod, each) for each in evictions]])

    def _evictions(self, action: Refuse) -> list[Eviction]:
        preemption, preemptor, group = action.preemption, action.pod, action.group
        if preemption is None:
            return []
        title = f"{group.key.kind} {group.key.title}" if group is not None else f"pod {'/'.join(preemptor.key)}"
        queues = self.scheduler.state.queues
        found = []
        for victim in preemption.victims:
            reason = preemption_reason(queues, preemptor, victim, reclaims=preemption.reclaims)
            found.append(Eviction(victim, title, reason, preemption.reclaims))
        return found

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

    def evict(self, victim: Pod, reason: str) -> bool:
        """Evicts a pod for a reason that is not the scheduler's; returns True if it was there."""
        return self._evict_pod(victim, Eviction(victim, reason=reason))

    def _evict_pod(self, victim: Pod, eviction: Eviction | None = None) -> bool:
        pod = self.stored.get("Pod", *victim.key)
        if pod is None or uid_of(pod) != victim.uid or is_deleting(pod):
            return False
        namespace, name = victim.key
        self.evicted.append(victim.key)
        self.evictions.append(eviction or Eviction(victim))
        if not self._evict:
            return False
        if name in self._linger:
            self.put({**pod, "metadata": {**pod["metadata"], "deletionTimestamp": text_of(self.now)}})
            return True
        claims = [each for each in self.stored.of_kind("ResourceClaim") if _is_owned(each, pod)]
        self.stored.remove("Pod", namespace, name, self.now)
        self._ended.append(partial(self._release_ended_pod, pod, claims))
        return True

    def _release_ended_pod(self, pod: Object, claims: Iterable[Object]) -> None:
        self._release_claims(uid_of(pod))
        if self._recreate(pod):
            self._create_again(pod, claims)

    def _create_again(self, pod: Object, claims: Iterable[Object]) -> None:
        """Creates an evicted pod and the claims that were made for it, as their controllers do."""
        uid = self.stored.new_uid("pod")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": key_of(pod)[1], "uid": uid, "controller": True}
        for claim in claims:
            metadata = {**_kept(claim), "uid": self.stored.new_uid("claim"), "ownerReferences": [owner]}
            self.put({**claim, "metadata": metadata, "status": {}})
        metadata = {**_kept(pod), "uid": uid, "creationTimestamp": text_of(self.now)}
        spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
        statuses = status_of(pod).get("resourceClaimStatuses")
        status = {"phase": "Pending", **({"resourceClaimStatuses": statuses} if statuses else {})}
        self.recreated[uid_of(pod)] = uid
        self.put({**pod, "metadata": metadata, "spec": spec, "status": status})

    def delete_pod(self, name: str, namespace: str = "default") -> None:
        """Deletes the pod with the claims that it owns, and removes it from the claims that it uses."""
        self._release_claims(uid_of(self.stored.remove("Pod", namespace, name, self.now)))

    def _release_claims(self, uid: str) -> None:
        for claim in self.stored.of_kind("ResourceClaim"):
            users = status_of(claim).get("reservedFor") or []
            left = [user for user in users if user["uid"] != uid]
            if any(owner.get("uid") == uid for owner in owners_of(claim)):
                self.stored.remove("ResourceClaim", *key_of(claim), self.now)
            elif len(left) < len(users):
                status = {**status_of(claim), "reservedFor": left} if left else {}
                self.put({**claim, "status": status})


def _kept(obj: Object) -> Object:
    return {key: value for key, value in obj["metadata"].items() if key in _KEPT_METADATA}


def _is_owned(claim: Object, pod: Object) -> bool:
    return any(owner.get("uid") == uid_of(pod) for owner in owners_of(claim))
