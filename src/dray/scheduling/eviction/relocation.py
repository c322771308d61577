"""Relocation: pods that run, taken away in thought and placed anew as their controllers would make them again.

A pod that is made again has claims without devices: each gets a twin that stands for it, with claims of its own that
ask for the same. What the twin takes of a queue the pod had before, so it belongs to no queue and to no group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from dray.allocation import Work
from dray.api.objects import Object, controller_of, is_deleting, key_of
from dray.api.pods import MIRROR_ANNOTATION, claim_entries, claims_used
from dray.api.resource_claims import reserved_for
from dray.scheduling.core import pods
from dray.scheduling.core.framework import Framework
from dray.scheduling.core.state import State
from dray.scheduling.core.what_if import Trial
from dray.scheduling.model.pod import Pod
from dray.scheduling.placement.algorithm import Placement, SchedulingAlgorithm
from dray.scheduling.plugins.dynamic_resources import all_devices
from dray.scheduling.quota.priority_removals import Unit

# Of what these control there is one on each node, and no other place for it.
_FIXED = ("DaemonSet", "Node")


def is_movable(pod: Pod, state: State) -> bool:
    """Whether somebody makes it again when it is removed, with claims that nobody else uses."""
    controller = controller_of(pod.document)
    if controller is None or controller.get("kind") in _FIXED or MIRROR_ANNOTATION in pod.annotations:
        return False
    if pod.is_placeholder or not pod.is_assigned or is_deleting(pod.document):
        return False
    users = (user for claim in state.claims.used_by(pod.uid) for user in reserved_for(claim))
    return all(user.get("uid") == pod.uid for user in users)


class Relocation:
    """Everything is undone by `undo`."""

    def __init__(
        self, state: State, framework: Framework, algorithm: SchedulingAlgorithm, removal: Trial, now: float
    ) -> None:
        self._state = state
        self._framework = framework
        self._algorithm = algorithm
        self._removal = removal
        self._now = now
        self._removed: dict[str, Pod] = {}
        self._placed: list[Placement] = []
        self._claims: list[Object] = []

    def remove(self, units: Iterable[Unit]) -> None:
        for unit in units:
            self._note(unit)
            self._removal.evict(unit)
            self._removed.update((each.uid, each) for each in unit)

    def restore(self, unit: Unit) -> None:
        for each in unit:
            self._removal.restore(each)
            del self._removed[each.uid]
        self._note(unit)

    def _note(self, unit: Unit) -> None:
        """The quick answers of their nodes hold no longer."""
        for each in unit:
            if (node := self._state.node_of(each)) is not None:
                self._state.touched.note(node.number)

    def place(self, work: Work) -> dict[str, str] | Pod:
        """A new node for each pod that was removed, by uid, those with most devices first; the first pod that has no
        other place if there is one."""
        found: dict[str, str] = {}
        for pod in sorted(self._removed.values(), key=lambda each: (-self._devices(each), each.key)):
            answer = self._place(pod, work)
            if answer is None:
                self._take_back()
                return pod
            self._algorithm.assume(answer)
            self._placed.append(answer)
            found[pod.uid] = answer.node.name
        return found

    def _place(self, pod: Pod, work: Work) -> Placement | None:
        # What it takes of a queue the pod has already, and it need not wait for others of its group.
        twin = replace(pods.read(self._twin(pod), self._state.signatures), group=None, joins=False)
        cycle = self._algorithm.begin(twin, self._now, work)
        if self._framework.prefilter(cycle) is not None:
            return None
        answer = self._algorithm.schedule(cycle)
        return answer if isinstance(answer, Placement) else None

    def _devices(self, pod: Pod) -> int:
        usage = self._state.claims
        return sum(len(claim["spec"].get("devices", {}).get("requests") or ()) for claim in usage.used_by(pod.uid))

    def _twin(self, pod: Pod) -> Object:
        document, claims = pod.document, self._state.claims
        names = {entry["name"]: name for entry, name in claims_used(document)}
        entries: list[Any] = []
        for entry in claim_entries(document):
            claim = claims.get((pod.key[0], names.get(entry["name"], "")))
            if claim is None:
                continue
            made = _claim(claim, f"{names[entry['name']]}/{pod.uid}")
            claims.put(made)
            self._claims.append(made)
            entries.append({"name": entry["name"], "resourceClaimName": made["metadata"]["name"]})
        metadata = document["metadata"]
        kept = {name: metadata[name] for name in ("name", "namespace", "labels", "annotations") if name in metadata}
        spec = {name: value for name, value in document["spec"].items() if name not in ("nodeName", "schedulingGroup")}
        return {
            "metadata": {**kept, "uid": f"{pod.uid}/moved"},
            "spec": {**spec, "resourceClaims": entries},
        }

    def _take_back(self) -> None:
        while self._placed:
            self._algorithm.take_back(self._placed.pop())
        for claim in self._claims:
            self._state.claims.remove(claim)
        self._claims.clear()

    def undo(self) -> None:
        self._take_back()
        units: Sequence[Unit] = [(each,) for each in self._removed.values()]
        self._removal.undo()
        self._removed.clear()
        for unit in units:
            self._note(unit)


def _claim(claim: Object, name: str) -> Object:
    """One that asks for the same and has nothing."""
    kept = {key: claim["metadata"][key] for key in ("annotations", "labels") if key in claim["metadata"]}
    namespace = key_of(claim)[0]
    return {"metadata": {**kept, "name": name, "namespace": namespace, "uid": name}, "spec": claim["spec"]}


def devices_of(placement: Placement) -> Iterator[str]:
    """By name, as they stand in an allocation."""
    return (f"{each['driver']}/{each['pool']}/{each['device']}" for each in all_devices(placement.devices))
