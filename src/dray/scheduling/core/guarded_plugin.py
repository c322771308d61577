"""GuardedPlugin: a plugin of a user, whose faults stay its own.

A fault is an exception, an answer that no plugin may give, or none within the budget. It is reported with the plugin's
name; a filter then rejects the one node, a prefilter the pod, both for a while; a score counts as 0. A method that has
no good answer in attempt after attempt, or overruns again and again, has the plugin switched off: it is asked nothing
any more, until the scheduler is started again.

A fault is not kept as other answers are: the node is asked again at the next attempt.

This room reads no clock and knows no signals: who interrupts a plugin that does not answer is handed in as a
`Watchdog`. Without one a plugin may take as long as it likes.
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
from dray.scheduling.core.plugin_answers import Nonsense
from dray.scheduling.core.state import State
from dray.scheduling.model import faults
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code, ObjectRef
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import SKIP, FailurePolicy, Plugin, Skip

ATTEMPT_SECONDS: Final = 1.0
"""What a plugin may spend on one attempt, over all nodes. An attempt as a whole takes about a millisecond."""

_MOST_STATUSES: Final = 256
_Answer = TypeVar("_Answer")


class FaultKind(Enum):
    RAISED = "raised"
    NONSENSE = "nonsense"
    """An answer that no plugin may give."""
    OVERRAN = "overran"
    """No answer within the budget."""


class Fault(NamedTuple):
    plugin: str
    method: str
    kind: FaultKind
    text: str
    error: BaseException | None = None
    switched_off: bool = False
    """Whether it was one too many, and the plugin is not asked any more."""


FaultReport = Callable[[Fault], None]


class Budget:
    """What is left of the time for one attempt, in seconds."""

    __slots__ = ("left",)

    def __init__(self, seconds: float = ATTEMPT_SECONDS) -> None:
        self.left = seconds


class Overrun(BaseException):
    """Raised inside a plugin by a watchdog. Plugins that catch every Exception do not catch it."""


class Watchdog(Protocol):
    def call(self, budget: Budget, function: Callable[..., Any], *args: Any) -> Any:
        """Calls the function and takes from the budget what that took. Raises Overrun in it once nothing is left."""


class NoWatchdog:
    def call(self, budget: Budget, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)


NO_WATCHDOG: Final = NoWatchdog()


@dataclass(frozen=True, slots=True)
class UnloadedPlugin:
    """A plugin that was asked for and cannot be had."""

    name: str
    why: str


def ignore(_: Fault) -> None:
    """For those who do not want to know."""


MOST_FAULTS: Final = {FaultKind.RAISED: 10, FaultKind.NONSENSE: 10, FaultKind.OVERRAN: 3}
"""In so many attempts one after the other a method may do wrong; an overrun delays everybody."""


class PluginFailed(Exception):
    """A call to the plugin came to nothing. It is reported already."""


class GuardedPlugin(Plugin):
    def __init__(
        self, plugin: Plugin, state: State, watchdog: Watchdog, report: FaultReport, seconds: float = ATTEMPT_SECONDS
    ) -> None:
        self.name, self.depends_on, self.weight = plugin.name, plugin.depends_on, plugin.weight
        self.lazy, self.failure_policy = plugin.lazy, plugin.failure_policy
        self.off = ""
        """Why it is switched off; empty while it works."""
        plugin.cluster = state
        self._plugin = plugin
        self._state = state
        self._watchdog = watchdog
        self._report = report
        self._seconds = seconds
        self._budget = Budget(seconds)
        self._cycle: Cycle | None = None
        self._answered: set[str] = set()
        self._faulty: set[str] = set()
        """The methods that gave a good answer in this attempt, and those that failed."""
        self._strikes: Counter[tuple[str, FaultKind]] = Counter()
        self._gate_fault: tuple[str, str] = ("", "")
        """The pod on which `pre_enqueue` failed last, and how."""
        self._statuses: dict[Status, Status] = {}
        """Those that were checked, by what was answered."""
        self._normalizes = plugin.defines("normalize")

    def defines(self, method: str) -> bool:
        # Every attempt begins here, also to say that a plugin that is off has nothing to say.
        return method == "prefilter" or self._plugin.defines(method)

    # Stages

    def sign(self, document: Object) -> Hashable:
        try:
            return None if self.off else self._ask(None, "sign", plugin_answers.sign, document)
        except PluginFailed:
            # Its answers are then shared with no other pod.
            return str(document["metadata"].get("uid"))

    def pre_enqueue(self, pod: Pod) -> Status | None:
        try:
            return None if self.off else self._ask(None, "pre_enqueue", self._status, pod)
        except PluginFailed as error:
            # The attempt reports it and tries again; a pod that is gated would wait for an event that may never come.
            self._gate_fault = pod.uid, str(error)
            return None

    def prefilter(self, cycle: Cycle) -> Status | Skip | None:
        if self.off:
            return self._without()
        uid, said = self._gate_fault
        self._gate_fault = "", ""
        if uid == cycle.pod.uid:
            return self._failed_on_pod(said)
        try:
            if not self._plugin.defines("prefilter"):
                return None
            return self._ask(cycle, "prefilter", lambda each: plugin_answers.prefilter(each, self.name), cycle)
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
        return self._or({}, cycle, "normalize", lambda each: plugin_answers.normalized(each, scores), cycle, {**scores})

    def rescore(self, cycle: Cycle, node: Node) -> bool:
        return self._or(False, cycle, "rescore", plugin_answers.truth, cycle, node)

    def reserve(self, cycle: Cycle, node: Node) -> None:
        """Raises PluginFailed: what it is there for is then not done, and the pod is tried again."""
        if not self.off:
            self._ask(cycle, "reserve", plugin_answers.nothing, cycle, node)

    def unreserve(self, cycle: Cycle, node: Node) -> tuple[ObjectRef, ...]:
        return self._or((), cycle, "unreserve", plugin_answers.references, cycle, node)

    # Asking

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
        """Raises PluginFailed. Calls without a cycle count as an attempt each."""
        if cycle is None or cycle is not self._cycle:
            self._begin(cycle)
        if self._budget.left <= 0:
            self._failed(method, FaultKind.OVERRAN, f"took longer than {self._seconds:g} s", None, args)
        try:
            answer = check(self._watchdog.call(self._budget, getattr(self._plugin, method), *args))
        except Overrun:
            self._budget.left = 0.0
            self._failed(method, FaultKind.OVERRAN, f"took longer than {self._seconds:g} s", None, args)
        except Nonsense as error:
            self._failed(method, FaultKind.NONSENSE, str(error), None, args)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # SystemExit among them: no plugin ends the scheduler.
            self._failed(method, FaultKind.RAISED, f"raised {faults.text(error)}", error, args)
        if method not in self._answered:
            self._answered.add(method)
            self._forgive(method, FaultKind.RAISED, FaultKind.NONSENSE)
        return answer

    def _begin(self, cycle: Cycle | None) -> None:
        """Of an attempt. Methods that did nothing wrong in the last one start with a clean record."""
        for method in self._answered - self._faulty:
            self._forgive(method, *FaultKind)
        self._answered.clear()
        self._faulty.clear()
        self._cycle = cycle
        self._budget.left = self._seconds

    def _failed(
        self, method: str, kind: FaultKind, text: str, error: BaseException | None, args: tuple[Any, ...]
    ) -> NoReturn:
        node = plugin_answers.node_of(args)
        if node is not None:
            self._state.touched.note(node.number)
        if method not in self._faulty:
            # Once an attempt is enough, however many nodes there are.
            self._faulty.add(method)
            # Where it fails on some nodes only, pods find their place on the others.
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
        # Whatever it was in the way of is tried again.
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

    def _failed_on_pod(self, said: str) -> Status:
        return Status.of(self.name, Code.PLUGIN_FAILED_ON_POD, self.name, said, error=True)

    def _without(self) -> Status | Skip:
        if self.failure_policy is FailurePolicy.IGNORE:
            return SKIP
        return Status.of(self.name, Code.PLUGIN_OFF, self.name)
