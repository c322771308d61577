"""The status of a pod as a kubelet writes it: conditions, states of containers, phase. Pure.

The status that is in the pod already is what is known of its past: restarts, start times, and since when a condition
holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from dray.api.objects import Object, condition_of, mappings, metadata_of, spec_of, status_of, uid_of

_NOT_READY: Final = "ContainersNotReady"
_REASONS: Final = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of day, as it is written, and the addresses of pod and node."""

    now: str
    host_ip: str

    def pod_ip(self, pod: Object) -> str:
        digest = sha256(uid_of(pod).encode()).digest()
        return f"10.{digest[0] % 128}.{digest[1]}.{1 + digest[2] % 254}"


def generation_of(pod: Object) -> int:
    return int(metadata_of(pod).get("generation") or 0)


def statuses_of(pod: Object) -> dict[str, Object]:
    """Returns the statuses of the pod's containers by name, without init containers."""
    return {status["name"]: status for status in mappings(status_of(pod).get("containerStatuses"))}


def creating(pod: Object, moment: Moment) -> Object:
    """Returns the status of a pod before its sandbox exists."""
    starting = "PodInitializing" if spec_of(pod).get("initContainers") else "ContainerCreating"
    containers = [_waiting(container, starting) for container in _containers(pod)]
    made: Object = {
        "phase": "Pending",
        "observedGeneration": generation_of(pod),
        "startTime": moment.now,
        "hostIP": moment.host_ip,
        "hostIPs": [{"ip": moment.host_ip}],
        "containerStatuses": containers,
        "conditions": _conditions(pod, containers, "Pending", moment.now),
    }
    if inits := mappings(spec_of(pod).get("initContainers")):
        made["initContainerStatuses"] = [_waiting(init, starting) for init in inits]
    return made


def alive(pod: Object, containers: list[Object], moment: Moment) -> Object:
    """Returns the status of a pod whose containers run or wait to be restarted."""
    made: Object = {
        "phase": "Running",
        "observedGeneration": generation_of(pod),
        "podIP": moment.pod_ip(pod),
        "podIPs": [{"ip": moment.pod_ip(pod)}],
        "containerStatuses": containers,
        "conditions": _conditions(pod, containers, "Running", moment.now),
    }
    if not status_of(pod).get("startTime"):
        made["startTime"] = moment.now
    if inits := mappings(spec_of(pod).get("initContainers")):
        made["initContainerStatuses"] = _initialized(pod, inits, moment.now)
    return made


def ended(pod: Object, containers: list[Object], moment: Moment, *, reason: str = "", message: str = "") -> Object:
    """Returns the status of an ended pod; with a reason it has failed whatever its containers did."""
    codes = [_state(container, "terminated").get("exitCode", 137) for container in containers]
    phase = "Failed" if reason or any(codes) else "Succeeded"
    made: Object = {
        "phase": phase,
        "observedGeneration": generation_of(pod),
        "containerStatuses": containers,
        "conditions": _conditions(pod, containers, phase, moment.now),
    }
    if reason:
        made |= {"reason": reason, "message": message}
    if inits := mappings(status_of(pod).get("initContainerStatuses")):
        made["initContainerStatuses"] = [terminated(init, 0, moment.now) for init in inits]
    return made


def started(pod: Object, container: Object, before: Object | None, now: str) -> Object:
    """Returns the status of a container that starts, for the first time or again."""
    made = {**_plain(container), "ready": True, "started": True, "state": {"running": {"startedAt": now}}}
    made["containerID"] = _container_id(pod, container["name"], 0)
    if before is not None and (last := _last(before)):
        count = int(before.get("restartCount") or 0) + 1
        made |= {"restartCount": count, "lastState": {"terminated": last}}
        made["containerID"] = _container_id(pod, container["name"], count)
    return made


def terminated(before: Object, code: int, now: str, *, reason: str = "") -> Object:
    """Returns the status of a container that was terminated; one that had ended stays as it was."""
    if _state(before, "terminated"):
        return before
    running = _state(before, "running")
    ended: Object = {"exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error"), "finishedAt": now}
    ended["startedAt"] = running.get("startedAt") or now
    if before.get("containerID"):
        ended["containerID"] = before["containerID"]
    if last := _last(before):
        # It waits for another run that will not come.
        ended = last
    return {**before, "ready": False, "started": False, "state": {"terminated": ended}}


def backing_off(before: Object, seconds: float, pod: Object) -> Object:
    """Returns the status of a container in restart backoff."""
    last = _state(before, "terminated")
    message = f"back-off {seconds:g}s restarting failed container={before['name']} pod={pod['metadata']['name']}"
    waiting = {"reason": "CrashLoopBackOff", "message": message}
    return {
        **before,
        "ready": False,
        "started": False,
        "state": {"waiting": waiting},
        "lastState": {"terminated": last},
    }


def _containers(pod: Object) -> list[Object]:
    return mappings(spec_of(pod).get("containers"))


def _state(container: Object, kind: str) -> Object:
    return (container.get("state") or {}).get(kind) or {}


def _last(before: Object) -> Object:
    """Returns the last termination of a container that does not run."""
    if _state(before, "terminated"):
        return _state(before, "terminated")
    if _state(before, "waiting"):
        return (before.get("lastState") or {}).get("terminated") or {}
    return {}


def _plain(container: Object) -> Object:
    image = str(container.get("image") or "")
    return {"name": container["name"], "image": image, "imageID": f"simulated://{image}", "restartCount": 0}


def _waiting(container: Object, reason: str) -> Object:
    return {**_plain(container), "ready": False, "started": False, "state": {"waiting": {"reason": reason}}}


def _initialized(pod: Object, inits: list[Object], now: str) -> list[Object]:
    """Returns the statuses of init containers: done at once, except sidecars, which run."""
    known = {status["name"]: status for status in mappings(status_of(pod).get("initContainerStatuses"))}
    made = []
    for init in inits:
        before = known.get(init["name"])
        if before is not None and not _state(before, "waiting"):
            made.append(before)
            continue
        running = started(pod, init, None, now)
        made.append(running if init.get("restartPolicy") == "Always" else terminated(running, 0, now))
    return made


def _container_id(pod: Object, name: str, run: int) -> str:
    return f"simulated://{sha256(f'{uid_of(pod)}/{name}/{run}'.encode()).hexdigest()}"


def _conditions(pod: Object, containers: list[Object], phase: str, now: str) -> list[Object]:
    unready = [container["name"] for container in containers if not container.get("ready")]
    why = _REASONS.get(phase) or (_NOT_READY if unready else "")
    message = f"containers with unready status: [{' '.join(unready)}]" if why == _NOT_READY else ""
    gates = [gate.get("conditionType", "") for gate in mappings(spec_of(pod).get("readinessGates"))]
    shut = [gate for gate in gates if condition_of(pod, gate, "True") is None]
    initialized = phase != "Pending" or not spec_of(pod).get("initContainers")
    wanted = [
        ("PodScheduled", True, "", ""),
        ("PodReadyToStartContainers", phase == "Running", "", ""),
        ("Initialized", initialized, "PodCompleted" if phase == "Succeeded" else "", ""),
        ("ContainersReady", not why, why, message),
        ("Ready", not why and not shut, why or ("ReadinessGatesNotReady" if shut else ""), message),
    ]
    return list(_since(pod, wanted, now))


def _since(pod: Object, wanted: list[tuple[str, bool, str, str]], now: str) -> Iterable[Object]:
    for type_, holds, reason, message in wanted:
        status = "True" if holds else "False"
        before = condition_of(pod, type_, status)
        since = (before or {}).get("lastTransitionTime") or now
        # Null takes away what an earlier status said.
        yield {
            "type": type_,
            "status": status,
            "lastTransitionTime": since,
            "observedGeneration": generation_of(pod),
            "reason": reason or None,
            "message": message or None,
        }
