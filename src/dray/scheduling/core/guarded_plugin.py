"""GuardedPlugin: wraps a plugin of a user, so that its faults do not affect the scheduler.

A fault is an exception, an invalid answer, or no answer within the budget. The fault is reported with the plugin's
name. A filter then rejects the node, a prefilter rejects the pod, and a score counts as 0. If a method fails in several
attempts one after the other, the plugin is switched off until the scheduler is restarted.

Faults are not kept like other answers: the plugin is asked about the node again in the next attempt.

This module reads no clock and uses no signals. A `Watchdog` interrupts a plugin that does not answer; without a
watchdog the time of a plugin is not limited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeVar

from dray.api.objects import Object
from dray.scheduling.core import plugin_answers
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.plugin_answers import InvalidAnswer
from dray.scheduling.core.state import State
from dray.scheduling.model import faults
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code, ObjectRef
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import SKIP, FailurePolicy, Plugin, Skip

ATTEMPT_SECONDS: Final = 1.0
"""The time that a plugin may take for one attempt, for all nodes together. A whole attempt takes about 1 ms."""

_MOST_STATUSES: Final = 256
_Answer = TypeVar("_Answer")


class FaultKind(Enum):
    RAISED = "raised"
    NONSENSE = "nonsense"
    """The answer was invalid."""
    OVERRAN = "overran"
    """The plugin did not answer within the budget."""


class Fault(NamedTuple):
    plugin: str
    method: str
    kind: FaultKind
    text: str
    error: BaseException | None = None
    switched_off: bool = False
    """Whether the plugin was switched off because of this fault."""


FaultReport = Callable[[Fault], None]


class Budget:
    """The time that is left for one attempt, in seconds."""

    __slots__ = ("left",)

    def __init__(self, seconds: float = ATTEMPT_SECONDS) -> None:
        self.left = seconds

    def set(self, seconds: float) -> None:
        self.left = seconds


class Overrun(BaseException):
    """Raised inside a plugin by a watchdog. It is no Exception, so that plugins do not catch it by accident."""


class Watchdog(Protocol):
    def call(self, budget: Budget, function: Callable[..., Any], *args: Any) -> Any:
        """Calls the function and subtracts the time from the budget. Raises Overrun inside the function once the budget
        is used up."""


class NoWatchdog:
    def call(self, budget: Budget, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)


NO_WATCHDOG: Final = NoWatchdog()


@dataclass(frozen=True, slots=True)
class UnloadedPlugin:
    """A plugin that is configured but could not be loaded."""

    name: str
    why: str


def ignore(_: Fault) -> None:
    """A FaultReport that does nothing."""


MOST_FAULTS: Final = {FaultKind.RAISED: 10, FaultKind.NONSENSE: 10, FaultKind.OVERRAN: 3}
"""The number of consecutive attempts with faults of a method after which the plugin is switched off. Fewer overruns
are allowed, since each delays all pods."""


class PluginFailed(Exception):
    """Raised if a call to the plugin failed. The fault is reported already."""


class GuardedPlugin(Plugin):
    def __init__(
        self, plugin: Plugin, state: State, watchdog: Watchdog, report: FaultReport, seconds: float = ATTEMPT_SECONDS
    ) -> None:
        self.name, self.depends_on, self.weight = plugin.name, plugin.depends_on, plugin.weight
        self.lazy, self.failure_policy = plugin.lazy, plugin.failure_policy
        self.skip_is_final = plugin.skip_is_final
        self.off = ""
        """Why the plugin is switched off; empty if it is not."""
        plugin.cluster = state
        self._plugin = plugin
        self._state = state
        self._watchdog = watchdog
        self._report = report
        self._seconds = seconds
        self._budget = Budget(seconds)
        self._cycle: Cycle | None = None
        self._answered: set[str] = set()
        """The methods that gave a valid answer in this attempt."""
        self._faulty: set[str] = set()
        """The methods that failed in this attempt."""
        self._strikes: Counter[tuple[str, FaultKind]] = Counter()
        """The number of consecutive attempts with a fault, by method and kind."""
        self._gate_fault: tuple[str, str] = ("", "")
        """The uid of the pod on which `pre_enqueue` failed last, and the text of the fault."""
        self._statuses: dict[Status, Status] = {}
        """Checked statuses, by the status that the plugin returned."""
        self._normalizes = plugin.defines("normalize")

    def defines(self, method: str) -> bool:
        # Every attempt calls the prefilter, which also skips a plugin that is switched off.
        return method == "prefilter" or self._plugin.defines(method)

    # Stages

    def sign(self, document: Object) -> Hashable:
        try:
            return None if self.off else self._ask(None, "sign", plugin_answers.sign, document)
        except PluginFailed:
            # Answers of the plugin are then not shared with other pods.
            return str(document["metadata"].get("uid"))

    def pre_enqueue(self, pod: Pod) -> Status | None:
        try:
            return None if self.off else self._ask(None, "pre_enqueue", self._status, pod)
        except PluginFailed as error:
            # The attempt reports the fault and tries again. A gated pod would wait for an event that may never come.
            self._gate_fault = pod.uid, str(error)
            return None

    def prefilter(self, cycle: Cycle) -> Status | Skip | None:
        if self.off:
            return self._without()
        uid, fault = self._gate_fault
        self._gate_fault = "", ""
        if uid == cycle.pod.uid:
            return self._failed_on_pod(fault)
        try:
            if not self._plugin.defines("prefilter"):
                return None
            return self._ask(cycle, "prefilter", lambda answer: plugin_answers.prefilter(answer, self.name), cycle)
        except PluginFailed as error:
            return self._failed_on_pod(str(error))

    def precheck(self, cycle: Cycle, node: Node) -> Status | None:
        return self._check("precheck", cycle, node)

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        return self._check("filter", cycle, node)

    def details(self, cycle: Cycle, node: Node) -> tuple[Any, ...]:
        return self._or((), cycle, "details", plugin_answers.details, cycle, node)

    def prescore(self, cycle: Cycle) -> Skip | None:
        otherwise: Skip | None = SKIP
        return self._or(otherwise, cycle, "prescore", plugin_answers.prescore, cycle)

    def score(self, cycle: Cycle, node: Node) -> int:
        check = plugin_answers.raw_score if self._normalizes else plugin_answers.score
        return self._or(0, cycle, "score", check, cycle, node)

    def normalize(self, cycle: Cycle, scores: dict[int, int]) -> dict[int, int]:
        if not self._normalizes:
            return scores
        return self._or(
            {}, cycle, "normalize", lambda answer: plugin_answers.normalized(answer, scores), cycle, {**scores}
        )

    def rescore(self, cycle: Cycle, node: Node) -> bool:
        return self._or(False, cycle, "rescore", plugin_answers.truth, cycle, node)

    def reserve(self, cycle: Cycle, node: Node) -> None:
        """Raises PluginFailed if the plugin fails; the pod is then not bound, and tried again."""
        if not self.off:
            self._ask(cycle, "reserve", plugin_answers.nothing, cycle, node)

    def unreserve(self, cycle: Cycle, node: Node) -> tuple[ObjectRef, ...]:
        return self._or((), cycle, "unreserve", plugin_answers.references, cycle, node)

    # Calls

    def _check(self, method: str, cycle: Cycle, node: Node) -> Status | None:
        if self.off:
            return None
        try:
            return self._ask(cycle, method, self._status, cycle, node)
        except PluginFailed as error:
            return Status.of(self.name, Code.PLUGIN_FAILED, self.name, str(error))

    def _or(
        self, otherwise: _Answer, cycle: Cycle, method: str, check: Callable[[object], _Answer], *args: Any
    ) -> _Answer:
        try:
            return otherwise if self.off else self._ask(cycle, method, check, *args)
        except PluginFailed:
            return otherwise

    def _ask(self, cycle: Cycle | None, method: str, check: Callable[[object], _Answer], *args: Any) -> _Answer:
        """Calls a method of the plugin and checks its answer. Raises PluginFailed. Each call without a cycle counts as
        an attempt."""
        if cycle is None or cycle is not self._cycle:
            self._begin(cycle)
        if self._budget.left <= 0:
            self._failed(method, FaultKind.OVERRAN, f"took longer than {self._seconds:g} s", None, args)
        try:
            answer = check(self._watchdog.call(self._budget, getattr(self._plugin, method), *args))
        except Overrun:
            self._budget.set(0.0)
            self._failed(method, FaultKind.OVERRAN, f"took longer than {self._seconds:g} s", None, args)
        except InvalidAnswer as error:
            self._failed(method, FaultKind.NONSENSE, str(error), None, args)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # This includes SystemExit: a plugin must not end the scheduler.
            self._failed(method, FaultKind.RAISED, f"raised {faults.text(error)}", error, args)
        if method not in self._answered:
            self._answered.add(method)
            self._forgive(method, FaultKind.RAISED, FaultKind.NONSENSE)
        return answer

    def _begin(self, cycle: Cycle | None) -> None:
        """Begins an attempt. The faults of methods that did not fail in the last attempt are forgotten."""
        for method in self._answered - self._faulty:
            self._forgive(method, *FaultKind)
        self._answered.clear()
        self._faulty.clear()
        self._cycle = cycle
        self._budget.set(self._seconds)

    def _failed(
        self, method: str, kind: FaultKind, text: str, error: BaseException | None, args: tuple[Any, ...]
    ) -> NoReturn:
        node = plugin_answers.node_of(args)
        if node is not None:
            self._state.touched.note(node.number)
        if method not in self._faulty:
            # A method is reported once in an attempt, even if it fails on many nodes.
            self._faulty.add(method)
            # A method that fails only on some nodes is not counted, since pods can use the other nodes.
            self._strikes[method, kind] += kind is FaultKind.OVERRAN or method not in self._answered
            off = self._strikes[method, kind] >= MOST_FAULTS[kind]
            if off:
                self._switch_off(method, kind, text)
            self._report(Fault(self.name, method, kind, text, error, switched_off=off))
        raise PluginFailed(f"{method} {text}")

    def _forgive(self, method: str, *kinds: FaultKind) -> None:
        for kind in kinds if self._strikes else ():
            self._strikes.pop((method, kind), None)

    def _switch_off(self, method: str, kind: FaultKind, text: str) -> None:
        self.off = f"{method} failed in {MOST_FAULTS[kind]} attempts one after the other; at last it {text}"
        # Pods that the plugin rejected are tried again.
        self._state.touched.everything()
        self._state.helped.everything()

    # Statuses

    def _status(self, answer: object) -> Status | None:
        if answer is None:
            return None
        if type(answer) is not Status:
            return plugin_answers.status(answer, self.name)
        # Most nodes are rejected for one of a few reasons: 3 µs instead of 7 for a node.
        known = self._statuses.get(answer)
        if known is None:
            known = plugin_answers.status(answer, self.name)
            assert known is not None
            if len(self._statuses) >= _MOST_STATUSES:
                self._statuses.clear()
            self._statuses[answer] = known
        return known

    def _failed_on_pod(self, fault: str) -> Status:
        return Status.of(self.name, Code.PLUGIN_FAILED_ON_POD, self.name, fault, error=True)

    def _without(self) -> Status | Skip:
        if self.failure_policy is FailurePolicy.IGNORE:
            return SKIP
        return Status.of(self.name, Code.PLUGIN_OFF, self.name)
