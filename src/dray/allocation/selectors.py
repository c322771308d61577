"""Selector verdicts: which devices an expression selects, as bitsets, each distinct device asked once.

A verdict depends on the driver, the attributes and the capacities of a device and on nothing else. Devices that
agree on what the program reads share one evaluation, across slices and nodes, until the inventory forgets them.
This is the one place that runs CEL.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from dray import cel
from dray.allocation.devices import NO_VALUE, Device, Values, frozen
from dray.allocation.work import Work
from dray.api.gates import FeatureGates
from dray.api.objects import mapping
from dray.api.semver import Semver
from dray.api.suggestions import closest

_ABSENT_KEY: Final = "no such key:"
_HINT: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() "
    "for optional fields"
)
# Expressions and answers are kept up to these bounds; the expressions that were asked for longest ago go first. What is
# compiled from an expression takes some hundred bytes for each of its characters, and an answer a few hundred.
_MOST_TEXT: Final = 256 * 1024
_MOST_ANSWERS: Final = 200_000
# What an expression counts for at least.
_LEAST_TEXT: Final = 64
MOST_COLUMNS: Final = 256
"""How many verdicts a sequence of devices remembers."""
# Units of work: for a compilation beside one a character, for an evaluation, and for each unit of its CEL cost, which
# is counted as it goes where the estimate does not rule out that it is exceeded.
_COMPILATION: Final = 500
_EVALUATION: Final = 4
_COST: Final = 0.12
_COST_COUNTED: Final = 0.8
# Units of work to compile one instruction of a pattern.
_INSTRUCTION: Final = 0.4

Compile = Callable[..., cel.Program]


class Column(NamedTuple):
    """The verdicts on a sequence of devices: bits of those selected, and what failed, by position."""

    selected: int
    faults: dict[int, str]


@dataclass(slots=True)
class _Expression:
    program: cel.Program | None
    fault: str
    key: Callable[[Device], Any]
    units: int = 0
    """The work of one evaluation, by the estimate of its cost."""
    instructions: int = 0
    """Number of instructions in the regular expressions that were compiled for the expression."""
    answers: dict[Any, Any] = field(default_factory=dict)


class Selectors:
    """Compiled expressions and their answers so far."""

    def __init__(self, gates: FeatureGates) -> None:
        self._environment = cel.device_environment(
            consumable_capacity=gates["DRAConsumableCapacity"], list_attributes=gates["DRAListTypeAttributes"]
        )
        self._known: OrderedDict[tuple[Compile, str], _Expression] = OrderedDict()
        self._text = 0
        self._answers = 0
        self.work = Work()
        """Work counter of the current caller. Answers found before it was exhausted are kept."""

    def charge(self, work: Work) -> None:
        """Counts the work of evaluations in `work`, until the next call."""
        self.work = work

    @contextmanager
    def charging(self, work: Work) -> Iterator[None]:
        """Counts the work of evaluations in `work`, until the context ends."""
        before, self.work = self.work, work
        try:
            yield
        finally:
            self.work = before

    def column(self, expression: str, devices: Sequence[Device]) -> Column:
        """Returns the verdicts of a selector; an expression that does not compile faults on every device."""
        compiled = self._expression(expression, cel.compile_selector)
        if compiled.program is None:
            return Column(0, dict.fromkeys(range(len(devices)), compiled.fault))
        selected, faults = 0, {}
        for position, device in enumerate(devices):
            verdict = self._answer(compiled, device, _matches)
            if verdict is True:
                selected |= 1 << position
            elif verdict is not False:
                faults[position] = verdict
        return Column(selected, faults)

    def derived(self, expression: str, device: Device) -> Values:
        """Returns the values of a derived attribute. Raises cel.CelError."""
        compiled = self._expression(expression, cel.compile_derived)
        if compiled.program is None:
            raise cel.CelError(compiled.fault)
        answer = self._answer(compiled, device, _derive)
        if isinstance(answer, str):
            raise cel.EvaluationError(answer)
        values: Values = answer
        return values

    def derived_fault(self, expression: str) -> str | None:
        """Returns why a derived attribute does not compile; None if it does."""
        compiled = self._expression(expression, cel.compile_derived)
        return compiled.fault if compiled.program is None else None

    def _expression(self, expression: str, compile_: Compile) -> _Expression:
        key = (compile_, expression)
        compiled = self._known.get(key)
        if compiled is None:
            compiled = self._known[key] = self._compile(expression, compile_)
            self._text += len(expression) + _LEAST_TEXT
            self._forget()
            if compiled.instructions:
                # What is compiled or refused is kept, so that the next attempt goes on from there.
                self.work.spend(int(_INSTRUCTION * compiled.instructions))
        else:
            # Another thread may have forgotten it meanwhile.
            with suppress(KeyError):
                self._known.move_to_end(key)
        return compiled

    def _forget(self) -> None:
        """Drops the least recently used answers until the cache is within its bounds."""
        while (self._text > _MOST_TEXT or self._answers >= _MOST_ANSWERS) and len(self._known) > 1:
            (_, expression), gone = self._known.popitem(last=False)
            self._text -= len(expression) + _LEAST_TEXT
            self._answers -= len(gone.answers)

    def _compile(self, expression: str, compile_: Compile) -> _Expression:
        self.work.spend(_COMPILATION + len(expression))
        try:
            program = compile_(expression, env=self._environment)
        except cel.CompileError as error:
            return _Expression(None, error.message, lambda device: None, instructions=error.instructions)
        rate = _COST if program.may_run_fast else _COST_COUNTED
        units = _EVALUATION + int(rate * min(program.estimated_cost, cel.COST_LIMIT))
        return _Expression(program, "", _grouping(program.reads), units, program.instructions)

    def _answer(self, compiled: _Expression, device: Device, ask: Callable[[cel.Program, Device], Any]) -> Any:
        key = compiled.key(device)
        answers = compiled.answers
        try:
            return answers[key]
        except KeyError:
            if self._answers >= _MOST_ANSWERS:
                self._forget()
                if len(answers) >= _MOST_ANSWERS:
                    self._answers -= len(answers)
                    answers.clear()
            assert compiled.program is not None
            answer = answers[key] = ask(compiled.program, device)
            self._answers += 1
            self.work.spend(compiled.units)
            if compiled.program.computes_patterns:
                self.work.spend(int(_INSTRUCTION * cel.computed_instructions()))
            return answer


def _matches(program: cel.Program, device: Device) -> bool | str:
    try:
        return program.matches(cel.Device(device.driver, device.spec))
    except cel.EvaluationError as error:
        text = str(error)
        if not text.startswith(_ABSENT_KEY):
            return f"CEL runtime error: {text}"
        similar = _similar_name(text.removeprefix(_ABSENT_KEY).strip(), device)
        return f"CEL runtime error: {text}{f'; did you mean {similar}?' if similar else _HINT}"


def _similar_name(name: str, device: Device) -> str:
    """Returns a similar attribute or capacity name of the device; "" if there is none."""
    published = (*mapping(device.spec.get("attributes")), *mapping(device.spec.get("capacity")))
    return closest(name, (each.rpartition("/")[2] for each in published))


def _derive(program: cel.Program, device: Device) -> Values | str:
    try:
        value = program.evaluate(cel.Device(device.driver, device.spec)).value
    except cel.EvaluationError as error:
        return str(error)
    if not isinstance(value, list):
        pair = _scalar(value)
        return frozenset((pair,)) if pair is not None else f"unsupported result {value!r}"
    pairs = [_scalar(item) for item in value]
    if any(pair is None for pair in pairs) or len({pair[0] for pair in pairs if pair}) > 1:
        return "the elements of a list must be scalars of one type"
    return frozenset(pair for pair in pairs if pair) or NO_VALUE


def _scalar(value: Any) -> tuple[str, Any] | None:
    if isinstance(value, bool):
        return "bool", value
    if type(value) is int:
        return "int", value
    if isinstance(value, str):
        return "string", value
    return ("version", str(value)) if isinstance(value, Semver) else None


def _grouping(reads: cel.Reads) -> Callable[[Device], Any]:
    """Returns a key that is equal for devices with the same answer of the program."""
    broad = any(name is None for _, name in (*reads.attributes, *reads.capacities))
    if reads.everything or broad:
        return lambda device: device.shape
    attributes = tuple(sorted(f"{domain}/{name}" for domain, name in reads.attributes))
    capacities = tuple(sorted(f"{domain}/{name}" for domain, name in reads.capacities))

    def key(device: Device) -> Any:
        if not device.sound:
            return device.shape
        return (
            device.driver,
            device.shareable,
            *[frozen(found) if (found := device.published(name)) else None for name in attributes],
            *[_capacity_text(device, name) for name in capacities],
        )

    return key


def _capacity_text(device: Device, name: str) -> str | None:
    entries = mapping(device.spec.get("capacity"))
    entry = entries.get(name)
    if entry is None:
        domain, _, identifier = name.rpartition("/")
        entry = entries.get(identifier) if domain == device.driver else None
    return None if entry is None else str(entry.get("value"))
