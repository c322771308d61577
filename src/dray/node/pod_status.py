"""Status of a pod as a kubelet writes it: phase, conditions, states of containers, from the records of its containers.

Conditions that others write (readiness gates, DisruptionTarget) are left alone: the status is a strategic
merge patch. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dray.api.objects import Object, condition_of, mappings, metadata_of, spec_of, status_of
from dray.node.container_records import ContainerRecord, PodRecords

_NOT_READY: Final = "ContainersNotReady"
_NEVER_RUN: Final = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
}


@dataclass(slots=True)
class PodState:
    """State of a pod that its containers do not show."""

    host_ip: str
    pod_ip: str = ""
    start_time: str = ""
    sandbox: bool = False
    initialized: bool = False
    reason: str = ""
    """Reason of a failure that does not depend on the containers."""
    message: str = ""
    rejected: bool = False
    """True if the node refused the pod at admission; nothing was done for it."""
    ended: bool = False
    """True if nothing of the pod runs or will run, and its claims are unprepared."""
    waiting: set[str] = field(default_factory=set)
    """Containers that ended and will run again."""


def phase_of(pod: Object, state: PodState, records: PodRecords) -> str:
    codes = [record.exit_code for record in records.containers]
    if state.ended:
        # Containers that never ran, because the pod was deleted or an init container failed, did not succeed.
        well = state.initialized and not state.reason and all(code == 0 for code in codes)
        return "Succeeded" if well else "Failed"
    return "Running" if state.initialized and any(record.attempt >= 0 for record in records.containers) else "Pending"


def status(
    pod: Object,
    state: PodState,
    records: PodRecords,
    *,
    now: str,
    devices: Mapping[str, list[Object]],
) -> Object:
    """Returns the pod's status as a merge patch; `devices` has the device health by container name."""
    if state.rejected:
        return _rejection(pod, state)
    phase = phase_of(pod, state, records)
    made: Object = {
        "phase": phase,
        "observedGeneration": metadata_of(pod).get("generation"),
        "hostIP": state.host_ip,
        "hostIPs": [{"ip": state.host_ip}],
        "startTime": state.start_time or None,
        "reason": state.reason or None,
        "message": state.message or None,
        "containerStatuses": [_main(record, state, records, devices) for record in records.containers],
        "conditions": list(_conditions(pod, state, phase, records, now)),
    }
    if state.pod_ip:
        made |= {"podIP": state.pod_ip, "podIPs": [{"ip": state.pod_ip}]}
    if records.inits:
        made["initContainerStatuses"] = [_init(record, state) for record in records.inits]
    if records.ephemerals:
        made["ephemeralContainerStatuses"] = [_container(record, state, {}) for record in records.ephemerals]
    return made


def _rejection(pod: Object, state: PodState) -> Object:
    """Returns the status of a refused pod, as a kubelet writes it.

    It has no container states: `kubectl get` would show those instead of the reason.
    """
    return {
        "phase": "Failed",
        "observedGeneration": metadata_of(pod).get("generation"),
        "startTime": state.start_time or None,
        "reason": state.reason or None,
        "message": state.message or None,
        "containerStatuses": None,
        "initContainerStatuses": None,
        "ephemeralContainerStatuses": None,
    }


def _container(record: ContainerRecord, state: PodState, devices: Mapping[str, list[Object]]) -> Object:
    made = record.status(waiting=record.name in state.waiting and not state.ended)
    if state.ended and state.initialized and record.state is None:
        made["state"] = {"terminated": _NEVER_RUN}
    if health := devices.get(record.name):
        made["allocatedResourcesStatus"] = health
    return made


def _main(record: ContainerRecord, state: PodState, records: PodRecords, devices: Mapping[str, list[Object]]) -> Object:
    made = _container(record, state, devices)
    if state.ended and not records.inits and record.state is None:
        # Without init containers it waits for nothing any more, even if the pod was never set up.
        made["state"] = {"terminated": _NEVER_RUN}
    return made


def _init(record: ContainerRecord, state: PodState) -> Object:
    made = _container(record, state, {})
    return made if record.sidecar else {**made, "ready": record.exit_code == 0}


def _conditions(
    pod: Object,
    state: PodState,
    phase: str,
    records: PodRecords,
    now: str,
) -> Iterable[Object]:
    inits = records.inits
    done = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "")
    unready = [
        record.name for record in (*(init for init in inits if init.sidecar), *records.containers) if not record.ready
    ]
    why = done or (_NOT_READY if unready else "")
    said = f"containers with unready status: [{' '.join(unready)}]" if why == _NOT_READY else ""
    left = [record.name for record in inits if not (record.started if record.sidecar else record.exit_code == 0)]
    pending = "" if state.initialized or not left else "ContainersNotInitialized"
    shut = [gate for gate in _gates(pod) if condition_of(pod, gate, "True") is None]
    gated = "the status of pod readiness gate " + ", ".join(f'"{gate}"' for gate in shut) + ' is not "True"'
    if state.reason == "Evicted":
        yield _condition(pod, "DisruptionTarget", True, "TerminationByKubelet", state.message, now)
    # Set it for pods that were bound by hand too.
    yield _condition(pod, "PodScheduled", True, "", "", now)
    yield _condition(pod, "PodReadyToStartContainers", state.sandbox and not state.ended, "", "", now)
    waiting = f"containers with incomplete status: [{' '.join(left)}]" if pending else ""
    yield _condition(pod, "Initialized", not pending, pending or ("PodCompleted" if done else ""), waiting, now)
    yield _condition(pod, "ContainersReady", not why, why, said, now)
    ready_why = why or ("ReadinessGatesNotReady" if shut else "")
    yield _condition(pod, "Ready", not ready_why, ready_why, said or (gated if shut and not why else ""), now)


def _gates(pod: Object) -> list[str]:
    return [str(gate.get("conditionType") or "") for gate in mappings(spec_of(pod).get("readinessGates"))]


def _condition(pod: Object, type_: str, holds: bool, reason: str, message: str, now: str) -> Object:
    value = "True" if holds else "False"
    before = condition_of(pod, type_, value)
    return {
        "type": type_,
        "status": value,
        "observedGeneration": metadata_of(pod).get("generation"),
        "lastTransitionTime": (before or {}).get("lastTransitionTime") or now,
        # Null removes the value of an earlier status.
        "reason": reason or None,
        "message": message or None,
    }


def same(pod: Object, status: Object) -> bool:
    """Returns True if the pod has this status already."""
    return _covers(status_of(pod), status)


def _covers(stored: object, wanted: object) -> bool:
    if isinstance(wanted, dict):
        if not isinstance(stored, dict):
            return not any(value is not None for value in wanted.values())
        return all(_covers(stored.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        if not isinstance(stored, list):
            return not wanted
        if wanted and isinstance(wanted[0], dict) and "type" in wanted[0]:
            kept = {condition.get("type"): condition for condition in stored if isinstance(condition, dict)}
            return all(_covers(kept.get(condition["type"]), condition) for condition in wanted)
        return len(stored) == len(wanted) and all(map(_covers, stored, wanted))
    return stored == wanted
