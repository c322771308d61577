"""Relocation: tries out to evict running pods and to place the pods that their controllers would create instead.

The new pod has new claims with the same requests and without devices. The evicted pod had the same quota before, so the
new pod counts as a pod in no queue and in no group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
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
from dray.scheduling.quota.defaults import Unit

# Pods of these controllers belong to one node and cannot be moved.
_FIXED = ("DaemonSet", "Node")


def is_movable(pod: Pod, state: State) -> bool:
    """Whether a controller creates the pod again when it is evicted, and no other pod uses its claims."""
    controller = controller_of(pod.document)
    if controller is None or controller.get("kind") in _FIXED or MIRROR_ANNOTATION in pod.annotations:
        return False
    if pod.is_placeholder or not pod.is_assigned or is_deleting(pod.document):
        return False
    users = (user for claim in state.claims.used_by(pod.uid) for user in reserved_for(claim))
    return all(user.get("uid") == pod.uid for user in users)


class Relocation:
    """Tries out, inside the trial `removal`, which pods are evicted and where they would be placed again."""

    def __init__(
        self, state: State, framework: Framework, algorithm: SchedulingAlgorithm, removal: Trial, now: float
    ) -> None:
        self._state = state
        self._framework = framework
        self._algorithm = algorithm
        self._removal = removal
        self._now = now
        self._removed: dict[str, Pod] = {}

    def remove(self, units: Iterable[Unit]) -> None:
        for unit in units:
            for pod in unit:
                # Kept answers about the node are no longer valid.
                self._state.touched.note(self._removal.node_of(pod).number)
                self._removed[pod.uid] = pod
            self._removal.evict(unit)

    def restore(self, unit: Unit) -> None:
        for pod in unit:
            self._removal.restore(pod)
            del self._removed[pod.uid]

    @contextmanager
    def placed(self, work: Work, *, elsewhere: bool = False) -> Iterator[dict[str, str] | Pod]:
        """Places the removed pods until the end of the context, those with the most device requests first.

        Yields a new node for each of them, by uid; a Pod if that pod fits on no node. With `elsewhere`, no pod is
        placed on the node that it was on.
        """
        with self._state.what_if() as trial:
            yield self._place_all(work, trial, elsewhere=elsewhere)

    def _place_all(self, work: Work, trial: Trial, *, elsewhere: bool) -> dict[str, str] | Pod:
        found: dict[str, str] = {}
        for pod in sorted(self._removed.values(), key=lambda pod: (-self._devices(pod), pod.key)):
            left_out = self._removal.node_of(pod).number if elsewhere else None
            answer = self._place(pod, work, trial, left_out)
            if answer is None:
                return pod
            self._algorithm.assume(answer)
            trial.record(("moved", pod.uid), partial(self._algorithm.take_back, answer))
            found[pod.uid] = answer.node.name
        return found

    def _place(self, pod: Pod, work: Work, trial: Trial, left_out: int | None) -> Placement | None:
        # The pod has its quota already, and need not wait for other pods of its group.
        moved = replace(pods.read(self._document(pod, trial), self._state.signatures), group=None, joins=False)
        cycle = self._algorithm.begin(moved, self._now, work)
        if self._framework.prefilter(cycle) is not None:
            return None
        if left_out is not None:
            cycle.restrict({node.number for node in self._state} - {left_out})
        answer = self._algorithm.schedule(cycle)
        return answer if isinstance(answer, Placement) else None

    def _devices(self, pod: Pod) -> int:
        usage = self._state.claims
        return sum(len(claim["spec"].get("devices", {}).get("requests") or ()) for claim in usage.used_by(pod.uid))

    def _document(self, pod: Pod, trial: Trial) -> Object:
        """Returns the pod as its controller would create it again, with claims without devices."""
        document, claims = pod.document, self._state.claims
        names = {entry["name"]: name for entry, name in claims_used(document)}
        entries: list[Any] = []
        for entry in claim_entries(document):
            claim = claims.get((pod.key[0], names.get(entry["name"], "")))
            if claim is None:
                continue
            made = _claim(claim, f"{names[entry['name']]}/{pod.uid}")
            claims.put(made)
            trial.record(("claim of moved pod", key_of(made)), partial(claims.take_back, made))
            entries.append({"name": entry["name"], "resourceClaimName": made["metadata"]["name"]})
        metadata = document["metadata"]
        kept = {name: metadata[name] for name in ("name", "namespace", "labels", "annotations") if name in metadata}
        spec = {name: value for name, value in document["spec"].items() if name not in ("nodeName", "schedulingGroup")}
        return {
            "metadata": {**kept, "uid": f"{pod.uid}/moved"},
            "spec": {**spec, "resourceClaims": entries},
        }


def _claim(claim: Object, name: str) -> Object:
    """Returns a claim with the same requests and without devices."""
    kept = {key: claim["metadata"][key] for key in ("annotations", "labels") if key in claim["metadata"]}
    namespace = key_of(claim)[0]
    return {"metadata": {**kept, "name": name, "namespace": namespace, "uid": name}, "spec": claim["spec"]}


def devices_of(placement: Placement) -> Iterator[str]:
    """Yields the names of the allocated devices as driver/pool/device."""
    return (f"{device['driver']}/{device['pool']}/{device['device']}" for device in all_devices(placement.devices))
