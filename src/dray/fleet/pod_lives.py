"""What becomes of a pod on a simulated node, and when. Pure.

`next_step` looks at a pod as it is now and says what a kubelet would do next: a status to write, claims to prepare
first, the pod to remove, or how long to wait. It depends on the pod, the rule for it, the seed and the time alone, so
that whoever asks, before or after a restart, gets the same answer. Times in a pod's status are whole seconds, and so is
the accuracy of all that is counted from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Final

from dray.api.objects import (
    Object,
    bounded,
    condition_of,
    is_deleting,
    key_of,
    mapping,
    mappings,
    metadata_of,
    spec_of,
)
from dray.api.objects import status_of as status
from dray.api.pods import is_terminal
from dray.client.clock import moment as parsed
from dray.client.clock import timestamp
from dray.fleet import pod_statuses as statuses
from dray.fleet.pod_statuses import Moment
from dray.fleet.stages import PodStage, exit_code, seconds

_FIRST_BACKOFF: Final = 10.0
_LONGEST_BACKOFF: Final = 300.0
# A run that lasted so long counts as good: the next one starts at once.
_GOOD_RUN: Final = 600.0
_MOST_DOUBLINGS: Final = 10
_TERMINATED: Final = 128 + 15
_KILLED: Final = 128 + 9


@dataclass(frozen=True, slots=True)
class Step:
    """The actions for a pod now, in this order, and the seconds until the next look."""

    prepare: bool = False
    """Prepare the pod's claims; if that fails, do nothing else."""
    unprepare: bool = False
    status: Object | None = None
    remove: bool = False
    wait: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """Decides what happens to a pod now."""

    pod: Object
    stage: PodStage
    seed: int
    now: datetime
    host_ip: str

    def next_step(self) -> Step:
        if is_deleting(self.pod):
            return self._stopping()
        if is_terminal(self.pod):
            return Step(unprepare=True)
        began = _time(status(self.pod).get("startTime"))
        known = statuses.statuses_of(self.pod)
        if began is None or not known:
            return Step(status=statuses.creating(self.pod, self._moment), wait=self._start_seconds())
        if (deadline := self._deadline(began)) is not None and deadline <= 0:
            return self._too_long(known)
        if not any("running" in each["state"] or each.get("lastState") for each in known.values()) and not any(
            "terminated" in each["state"] for each in known.values()
        ):
            return self._starting(began)
        step = self._running(known)
        if deadline is None or step.unprepare or (step.wait is not None and step.wait <= deadline):
            return step
        return Step(status=step.status, wait=deadline)

    @property
    def _moment(self) -> Moment:
        return Moment(timestamp(self.now), self.host_ip)

    def _chance(self, *what: object) -> Random:
        return Random("/".join(map(str, (self.seed, *key_of(self.pod), *what))))

    def _deadline(self, began: datetime) -> float | None:
        """Seconds that it has left; none where it has no deadline."""
        allowed = spec_of(self.pod).get("activeDeadlineSeconds")
        if allowed is None:
            return None
        return bounded(allowed, 0, 2**31) - (self.now - began).total_seconds()

    def _too_long(self, known: dict[str, Object]) -> Step:
        ended = [statuses.terminated(each, _KILLED, timestamp(self.now)) for each in known.values()]
        why = {"reason": "DeadlineExceeded", "message": "Pod was active on the node longer than the specified deadline"}
        return Step(unprepare=True, status=statuses.ended(self.pod, ended, self._moment, **why))

    # Start

    def _start_seconds(self) -> float:
        return seconds(self.stage.start_seconds, self._chance("start"))

    def _starting(self, began: datetime) -> Step:
        left = self._start_seconds() - (self.now - began).total_seconds()
        if left > 0:
            return Step(wait=left)
        looks = [self._started(container, None) for container in self._containers()]
        made, waits = [each for each, _ in looks], [wait for _, wait in looks if wait is not None]
        return Step(
            prepare=True, status=statuses.alive(self.pod, made, self._moment), wait=min(waits) if waits else None
        )

    def _containers(self) -> list[Object]:
        return mappings(spec_of(self.pod).get("containers"))

    # Run

    def _running(self, known: dict[str, Object]) -> Step:
        made: list[Object] = []
        waits: list[float] = []
        for container in self._containers():
            before = known.get(container["name"]) or statuses.started(self.pod, container, None, timestamp(self.now))
            after, wait = self._container(container, before)
            made.append(after)
            waits += [wait] if wait is not None else []
        if all("terminated" in each["state"] for each in made) and not waits:
            return Step(unprepare=True, status=statuses.ended(self.pod, made, self._moment))
        seen = status(self.pod).get("observedGeneration") == statuses.generation_of(self.pod)
        changed = made != list(known.values()) or not seen
        # A condition that a readiness gate waits for is written by others.
        gated = bool(spec_of(self.pod).get("readinessGates")) and not changed and self._gates_changed(made)
        wait = max(min(waits), 0.05) if waits else None
        return Step(status=statuses.alive(self.pod, made, self._moment) if changed or gated else None, wait=wait)

    def _gates_changed(self, made: list[Object]) -> bool:
        wanted = statuses.alive(self.pod, made, self._moment)["conditions"]
        ready = next(condition["status"] for condition in wanted if condition["type"] == "Ready")
        return condition_of(self.pod, "Ready", ready) is None

    def _container(self, container: Object, before: Object) -> tuple[Object, float | None]:
        """Returns the current status of a container, and the seconds until it changes; None if it does not."""
        now = timestamp(self.now)
        state = before["state"]
        if "running" in state and before.get("image") != container.get("image"):
            return self._started(container, statuses.terminated(before, _TERMINATED, now))
        if "running" in state:
            left = self._left(before)
            if left is None or left > 0:
                return self._probed(container, before, left)
            before = statuses.terminated(before, self._exit_code(before), now)
            state = before["state"]
        ended = state.get("terminated") or (before.get("lastState") or {}).get("terminated") or {}
        if not self._runs_again(int(ended.get("exitCode") or 0)):
            return before, None
        pause = self._pause(before, ended)
        left = pause - _since(ended.get("finishedAt"), self.now)
        if left > 0:
            return (statuses.backing_off(before, pause, self.pod) if "terminated" in state else before), left
        return self._started(container, before)

    def _started(self, container: Object, before: Object | None) -> tuple[Object, float | None]:
        running = statuses.started(self.pod, container, before, timestamp(self.now))
        return self._probed(container, running, self._left(running))

    def _probed(self, container: Object, running: Object, left: float | None) -> tuple[Object, float | None]:
        """Applies probes: they succeed whenever they run, first after their initial delay."""
        ran = _since(running["state"]["running"].get("startedAt"), self.now)
        startup, readiness = (_delay(container, probe) for probe in ("startupProbe", "readinessProbe"))
        found = {**running, "started": startup <= ran, "ready": max(startup, readiness) <= ran}
        waits = [delay - ran for delay in (startup, readiness) if delay > ran]
        return found, min(waits if left is None else (*waits, left), default=None)

    def _left(self, container: Object) -> float | None:
        """Seconds until a running container ends; none where it runs for ever."""
        if self.stage.run_seconds is None:
            return None
        lasts = seconds(self.stage.run_seconds, self._run_chance("run", container))
        return lasts - _since(container["state"]["running"].get("startedAt"), self.now)

    def _exit_code(self, container: Object) -> int:
        run = int(container.get("restartCount") or 0)
        return exit_code(self.stage.exit_code, run, self._run_chance("exit", container))

    def _run_chance(self, what: str, container: Object) -> Random:
        return self._chance(what, container["name"], container.get("restartCount") or 0)

    def _runs_again(self, code: int) -> bool:
        policy = spec_of(self.pod).get("restartPolicy") or "Always"
        return policy == "Always" or (policy == "OnFailure" and code != 0)

    def _pause(self, container: Object, ended: Object) -> float:
        """Returns the restart backoff: none at first, then longer each time."""
        count = int(container.get("restartCount") or 0)
        began, finished = _time(ended.get("startedAt")), _time(ended.get("finishedAt"))
        if not count or (began and finished and (finished - began).total_seconds() >= _GOOD_RUN):
            return 0.0
        return float(min(_FIRST_BACKOFF * 2 ** min(count - 1, _MOST_DOUBLINGS), _LONGEST_BACKOFF))

    # End

    def _stopping(self) -> Step:
        """Returns the step for a pod that is being deleted: it may take up to its grace period to stop."""
        known = statuses.statuses_of(self.pod)
        running = any("running" in each["state"] for each in known.values())
        if is_terminal(self.pod) or not running:
            done = None if is_terminal(self.pod) else self._stopped(known, _KILLED)
            return Step(unprepare=True, status=done, remove=True)
        end = _time(metadata_of(self.pod).get("deletionTimestamp")) or self.now
        grace = bounded(metadata_of(self.pod).get("deletionGracePeriodSeconds"), 0, 2**31)
        takes = self._hook_seconds() + seconds(self.stage.stop_seconds, self._chance("stop"))
        stops = min(end - timedelta(seconds=grace) + timedelta(seconds=takes), end)
        left = (stops - self.now).total_seconds()
        if left > 0:
            return Step(wait=left)
        code = _TERMINATED if takes < grace else _KILLED
        return Step(unprepare=True, status=self._stopped(known, code), remove=True)

    def _hook_seconds(self) -> int:
        """Returns how long the preStop hooks sleep; other hooks take no time."""
        hooks = [mapping(mapping(container.get("lifecycle")).get("preStop")) for container in self._containers()]
        return max((bounded(mapping(hook.get("sleep")).get("seconds"), 0, 2**31) for hook in hooks), default=0)

    def _stopped(self, known: dict[str, Object], code: int) -> Object:
        now = timestamp(self.now)
        return statuses.ended(self.pod, [statuses.terminated(each, code, now) for each in known.values()], self._moment)


def _delay(container: Object, probe: str) -> int:
    return bounded(mapping(container.get(probe)).get("initialDelaySeconds"), 0, 2**31)


def _since(text: str | None, now: datetime) -> float:
    began = _time(text)
    return (now - began).total_seconds() if began is not None else 0.0


def _time(text: str | None) -> datetime | None:
    try:
        return parsed(text) if text else None
    except ValueError:
        return None
