"""Record of a container of a pod: its latest run, the one before, and when it may run again. Pure.

`ContainerRecord.status` is what a kubelet writes of it into `containerStatuses`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from dray.api.objects import Object, mapping, mappings, spec_of, status_of, uid_of
from dray.client.clock import moment, timestamp
from dray.node.runtimes.interface import ContainerState

FIRST_BACKOFF: Final = 10.0
LONGEST_BACKOFF: Final = 300.0
# A run that lasted so long counts as good: the next one starts at once.
_GOOD_RUN: Final = 600.0
_MESSAGE_BYTES: Final = 4096
_MEMBERS: Final = ("initContainers", "containers")
_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
# As if it was killed: nobody knows how it ended.
_LOST_EXIT: Final = 137
LOST_MESSAGE: Final = "The container was removed while no node agent was running; how it ended is not known"
_STATED: Final = ("limits", "requests", "claims")


@dataclass(slots=True)
class ContainerRecord:
    """`spec` is the container in the pod; `sidecar` an init container that goes on beside the others."""

    spec: Object
    sidecar: bool = False
    attempt: int = -1
    """Number of the latest run, from 0; -1 before the first."""
    state: ContainerState | None = None
    last: ContainerState | None = None
    """The run before the latest one."""
    waiting: tuple[str, str] = ("ContainerCreating", "")
    """Reason and message while there is no run."""
    messages: dict[int, str] = field(default_factory=dict)
    """Termination messages by number of the run."""
    failures: int = 0
    restart: bool = False
    """True if its spec changed so that it must be restarted, whatever its restart policy."""
    resources: Object = field(default_factory=dict)
    """Resources of its latest run."""
    ready: bool = False
    started: bool = False

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def running(self) -> bool:
        return self.state is not None and self.state.running

    @property
    def exit_code(self) -> int | None:
        return self.state.exit_code if self.state is not None else None

    def began(self, state: ContainerState) -> None:
        self.last = self.state
        self.state, self.attempt = state, state.attempt
        self.restart, self.resources = False, mapping(self.spec.get("resources"))
        self.ready = self.started = False

    def ended(self, state: ContainerState, message: str) -> None:
        self.state = state
        self.ready = self.started = False
        self.messages = {state.attempt: message, **({} if self.last is None else self._message(self.last))}
        good = self.restart or state.finished_at - state.started_at >= _GOOD_RUN
        self.failures = 0 if good else self.failures + 1

    def _message(self, state: ContainerState) -> dict[int, str]:
        return {state.attempt: self.messages.get(state.attempt, "")}

    def backoff(self) -> float:
        """Returns the seconds from the end of the latest run until the next: 0 after the first, then more and more."""
        if self.failures <= 1:
            return 0.0
        return float(min(FIRST_BACKOFF * 2 ** min(self.failures - 2, 10), LONGEST_BACKOFF))

    def status(self, *, waiting: bool = False) -> Object:
        """Returns the entry of `containerStatuses`; with `waiting`, the latest run has ended and another follows."""
        state, last = self.state, self.last
        if waiting and state is not None and not state.running:
            state, last = None, self.state
        made: Object = {
            "name": self.name,
            "image": str(self.spec.get("image") or ""),
            "imageID": state.image_id if state is not None else "",
            "restartCount": max(self.attempt, 0),
            "ready": self.ready,
            "started": self.started,
            "state": self._state(state),
            "lastState": {} if last is None or last.running else {"terminated": self._terminated(last)},
        }
        if self.state is not None:
            made["containerID"] = container_id(self.state)
            made["resources"] = {name: self.resources[name] for name in _STATED if self.resources.get(name)}
            made["allocatedResources"] = self.resources.get("requests") or None
            if signal := mapping(self.spec.get("lifecycle")).get("stopSignal"):
                made["stopSignal"] = signal
        if mounts := mappings(self.spec.get("volumeMounts")):
            made["volumeMounts"] = [_mount_status(mount) for mount in mounts]
        return made

    def _state(self, state: ContainerState | None) -> Object:
        if state is None:
            reason, message = self.waiting
            return {"waiting": {"reason": reason} | ({"message": message} if message else {})}
        if state.running:
            return {"running": {"startedAt": _time(state.started_at)}}
        return {"terminated": self._terminated(state)}

    def _terminated(self, state: ContainerState) -> Object:
        made: Object = {
            "exitCode": state.exit_code,
            "reason": "OOMKilled" if state.oom_killed else "Completed" if state.exit_code == 0 else "Error",
            "startedAt": _time(state.started_at),
            "finishedAt": _time(state.finished_at),
            "containerID": container_id(state),
        }
        if state.signal:
            made["signal"] = state.signal
        if message := self.messages.get(state.attempt):
            made["message"] = message[-_MESSAGE_BYTES:]
        return made


def _mount_status(mount: Object) -> Object:
    made = {name: mount[name] for name in ("name", "mountPath", "readOnly") if mount.get(name)}
    return {**made, "recursiveReadOnly": "Disabled"} if mount.get("readOnly") else made


def container_id(state: ContainerState) -> str:
    return state.id if "://" in state.id else f"process://{state.id}"


def _time(seconds: float) -> str:
    return timestamp(datetime.fromtimestamp(seconds, UTC))


@dataclass(slots=True)
class PodRecords:
    """The records of all containers of a pod."""

    inits: list[ContainerRecord]
    containers: list[ContainerRecord]
    ephemerals: list[ContainerRecord] = field(default_factory=list)

    def __iter__(self) -> Iterator[ContainerRecord]:
        yield from (*self.inits, *self.containers, *self.ephemerals)

    def find(self, name: str) -> ContainerRecord | None:
        return next((record for record in self if record.name == name), None)

    def follow(self, pod: Object) -> list[tuple[ContainerRecord, Object]]:
        """Takes over changes of the pod's spec. Returns the records that changed, each with its old spec."""
        changed = []
        given = {
            container["name"]: container for member in _MEMBERS for container in mappings(spec_of(pod).get(member))
        }
        for record in self:
            before, record.spec = record.spec, given.get(record.name, record.spec)
            if before != record.spec:
                changed.append((record, before))
        for container in mappings(spec_of(pod).get("ephemeralContainers")):
            if self.find(str(container["name"])) is None:
                self.ephemerals.append(ContainerRecord(container))
        return changed


def records_of(pod: Object) -> PodRecords:
    """Makes the records of a pod whose containers have not run yet."""
    spec = spec_of(pod)
    inits = [
        ContainerRecord(container, sidecar=container.get("restartPolicy") == "Always")
        for container in mappings(spec.get("initContainers"))
    ]
    waiting = ("PodInitializing", "") if inits else ("ContainerCreating", "")
    for record in inits:
        record.waiting = waiting
    records = PodRecords(
        inits, [ContainerRecord(container, waiting=waiting) for container in mappings(spec.get("containers"))]
    )
    records.follow(pod)
    return records


def lost_run(pod: Object, record: ContainerRecord, now: float) -> ContainerState | None:
    """Returns the latest run that the pod's status shows, ended `now` at the latest; None if it shows no run."""
    entries = (entry for member in _STATUSES for entry in mappings(status_of(pod).get(member)))
    told = next((entry for entry in entries if entry.get("name") == record.name), {})
    if not told.get("containerID"):
        return None
    state, last = mapping(told.get("state")), mapping(told.get("lastState"))
    ended = mapping(state.get("terminated") or ({} if state.get("running") else last.get("terminated")))
    started = (ended or mapping(state.get("running"))).get("startedAt")
    return ContainerState(
        str(told["containerID"]),
        uid_of(pod),
        record.name,
        int(told.get("restartCount") or 0),
        moment(str(started)).timestamp() if started else now,
        moment(str(ended["finishedAt"])).timestamp() if ended.get("finishedAt") else now,
        int(ended["exitCode"]) if "exitCode" in ended else _LOST_EXIT,
        image=str(told.get("image") or ""),
        image_id=str(told.get("imageID") or ""),
    )


def runs_again(pod: Object, record: ContainerRecord) -> bool:
    """Returns True if a container that ended is started again, by its own policy and rules or else by the pod's."""
    code = record.exit_code
    for rule in mappings(record.spec.get("restartPolicyRules")):
        if rule.get("action") == "Restart" and _matches(mapping(rule.get("exitCodes")), code):
            return True
    policy = record.spec.get("restartPolicy") or spec_of(pod).get("restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _matches(codes: Object, code: int | None) -> bool:
    listed = code in (codes.get("values") or ())
    return listed if codes.get("operator") == "In" else not listed
