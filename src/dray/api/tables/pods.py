"""A pod's row: its state is pieced together from phase, conditions and containers."""

from __future__ import annotations

from dray.api.objects import Object, conditions_of, mapping, status_of, walk
from dray.api.tables.column import AGE, NAME, NONE, Column, age


def _statuses(pod: Object) -> list[Object]:
    return status_of(pod).get("containerStatuses") or []


def _ready(pod: Object, now: str) -> str:
    sidecars = [c["name"] for c in pod["spec"].get("initContainers") or [] if c.get("restartPolicy") == "Always"]
    initial = status_of(pod).get("initContainerStatuses") or []
    ready = sum(1 for status in _statuses(pod) if status.get("ready"))
    ready += sum(1 for status in initial if status["name"] in sidecars and status.get("ready"))
    return f"{ready}/{len(pod['spec']['containers'] or []) + len(sidecars)}"


def pod_state(pod: Object, now: str) -> str:
    status = status_of(pod)
    if pod["metadata"].get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return _initializing(pod) or _running(pod)


def _initializing(pod: Object) -> str | None:
    """`Init:1/3` and the like while init containers are not done."""
    containers = {c["name"]: c for c in pod["spec"].get("initContainers") or []}
    for index, status in enumerate(status_of(pod).get("initContainerStatuses") or []):
        state = mapping(status.get("state"))
        terminated, waiting = state.get("terminated"), state.get("waiting")
        sidecar = containers.get(status["name"], {}).get("restartPolicy") == "Always"
        if (terminated and terminated.get("exitCode") == 0) or (sidecar and status.get("started")):
            continue
        if terminated:
            return f"Init:{_ending(terminated)}"
        if waiting and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(containers)}"
    return None


def _ending(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _running(pod: Object) -> str:
    status = status_of(pod)
    found = status.get("reason") or status.get("phase", "")
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            found = "SchedulingGated"
    running = False
    for container in reversed(_statuses(pod)):
        state = mapping(container.get("state"))
        if mapping(state.get("waiting")).get("reason"):
            found = state["waiting"]["reason"]
        elif state.get("terminated"):
            found = _ending(state["terminated"])
        elif container.get("ready") and state.get("running"):
            running = True
    if found == "Completed" and running:
        conditions = status.get("conditions") or []
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        return "Running" if ready else "NotReady"
    return str(found)


def _restarts(pod: Object, now: str) -> str:
    total = sum(status.get("restartCount", 0) for status in _statuses(pod))
    endings = [
        ended for status in _statuses(pod) if (ended := walk(status, "lastState", "terminated").get("finishedAt"))
    ]
    return f"{total} ({age(max(endings), now)} ago)" if total and endings else str(total)


def _readiness_gates(pod: Object, now: str) -> str:
    gates = pod["spec"].get("readinessGates") or []
    if not gates:
        return NONE
    true = {c["type"] for c in conditions_of(pod) if c["status"] == "True"}
    return f"{sum(1 for gate in gates if gate['conditionType'] in true)}/{len(gates)}"


COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("", "Pod"): (
        NAME,
        Column("Ready", _ready),
        Column("Status", pod_state),
        Column("Restarts", _restarts),
        AGE,
        Column("IP", lambda pod, now: status_of(pod).get("podIP") or NONE, wide=True),
        Column("Node", lambda pod, now: pod["spec"].get("nodeName") or NONE, wide=True),
        Column("Nominated Node", lambda pod, now: status_of(pod).get("nominatedNodeName") or NONE, wide=True),
        Column("Readiness Gates", _readiness_gates, wide=True),
    ),
}
