"""ValidatingAdmissionPolicy: compiled with its bindings, and what it says about a write.

What is wrong is a `Violation` for each binding; what follows (deny, warn, audit) is up to the binding's actions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dray.api.objects import Object, mapping
from dray.cel import policy as language
from dray.cel import types as t
from dray.cel.errors import EvaluationError
from dray.cel.policy import compile_policy
from dray.cel.program import Program
from dray.cel.values import Value
from dray.server.admission.dynamic.expressions import Conditions, Declarations, Evaluation, loops
from dray.server.admission.dynamic.matching import Matcher
from dray.server.admission.dynamic.params import ConfigurationError, params_of
from dray.server.admission.dynamic.request import AdmissionRequest

MAX_MESSAGE = 5 * 1024


class Binding:
    def __init__(self, binding: Object) -> None:
        self.name = binding["metadata"]["name"]
        self.spec = binding["spec"]
        self.matcher = Matcher(mapping(self.spec.get("matchResources")))
        self.actions = list(self.spec.get("validationActions") or ())


@dataclass(frozen=True, slots=True)
class Violation:
    policy: str
    binding: Binding
    message: str
    reason: str = ""
    index: int = 0


class Planned(NamedTuple):
    """A binding with the values of expressions for each parameter object; or an error if they cannot be read."""

    binding: Binding
    values: list[dict[str, Value]]
    error: str = ""


class _Validation(NamedTuple):
    program: Program
    said: Program | None
    given: Object


class Policy:
    """Base of validating and mutating policies; raises CompileError."""

    def __init__(self, policy: Object, bindings: list[Object], *, mutation: bool = False) -> None:
        self.name = policy["metadata"]["name"]
        self.spec = policy["spec"]
        self.matcher = Matcher(mapping(self.spec.get("matchConstraints")))
        self.bindings = [Binding(binding) for binding in bindings]
        self.fails = self.spec.get("failurePolicy") != "Ignore"
        self.declared = Declarations(self.spec, mutation=mutation)
        self.conditions = Conditions(self.spec.get("matchConditions") or [], self.declared.of_conditions())

    def selected(self, request: AdmissionRequest, version: str) -> list[Binding]:
        """Returns the bindings by which the policy applies to the request."""
        if not self.matcher.selects(request, version):
            return []
        seen = request.target._replace(version=version)
        matching = (binding for binding in self.bindings if binding.matcher.version(seen, ()) is not None)
        return [binding for binding in matching if binding.matcher.selects(request, version)]

    async def plan(self, request: AdmissionRequest, version: str) -> list[Planned]:
        """Reads everything that the policy needs, so that it can be evaluated in a worker."""
        bindings = self.selected(request, version)
        if not bindings:
            return []
        values = request.values(version)
        planned = []
        for binding in bindings:
            try:
                params = await params_of(self.spec, binding.spec, request)
            except ConfigurationError as error:
                planned.append(Planned(binding, [], str(error)))
            else:
                planned.append(Planned(binding, [{**values, "params": parameters} for parameters in params]))
        return planned

    def runs(self, planned: Planned) -> Iterator[Evaluation]:
        """Yields an evaluation for each parameter object whose match conditions are true; raises EvaluationError."""
        for values in planned.values:
            if self.conditions.hold(Evaluation(values, language.CONDITIONS_BUDGET)):
                run = Evaluation(values)
                run.set_variables(self.declared.programs)
                yield run


class ValidatingPolicy(Policy):
    def __init__(self, policy: Object, bindings: list[Object]) -> None:
        super().__init__(policy, bindings)
        environment, plain = self.declared.environment(), self.declared.environment(authorizes=False)
        self._validations = [
            _Validation(
                compile_policy(validation["expression"], environment, t.BOOL),
                compile_policy(validation["messageExpression"], plain, t.STRING)
                if validation.get("messageExpression")
                else None,
                validation,
            )
            for validation in self.spec.get("validations") or ()
        ]
        self._annotations = [
            (annotation["key"], compile_policy(annotation["valueExpression"], environment, t.STRING, t.NULL, t.DYN))
            for annotation in self.spec.get("auditAnnotations") or ()
        ]
        self.loops = loops(self._programs())

    def _programs(self) -> Iterator[Program]:
        yield from self.declared.programs.values()
        yield from self.conditions.programs
        yield from (program for _, program in self._annotations)
        for validation in self._validations:
            yield validation.program
            if validation.said is not None:
                yield validation.said

    def violations(self, plan: list[Planned], noted: dict[str, str]) -> list[Violation]:
        """Returns the violations; adds audit annotations to `noted`."""
        return [found for planned in plan for found in self._of_binding(planned, noted)]

    def _of_binding(self, planned: Planned, noted: dict[str, str]) -> Iterator[Violation]:
        binding = planned.binding
        if planned.error and self.fails:
            yield Violation(self.name, binding, f"failed to configure binding: {planned.error}")
        try:
            for run in self.runs(planned):
                yield from self._violations(binding, run)
                yield from self._annotate(binding, run, noted)
        except EvaluationError as error:
            if self.fails:
                yield Violation(self.name, binding, str(error))

    def _violations(self, binding: Binding, run: Evaluation) -> Iterator[Violation]:
        for index, (program, said, given) in enumerate(self._validations):
            try:
                if run.value(program) is True:
                    continue
                message = _message(run, said) or given.get("message") or f"failed expression: {program.expression}"
                yield Violation(self.name, binding, message.strip(), given.get("reason") or "", index)
            except EvaluationError as error:
                if self.fails:
                    text = f"expression '{program.expression}' resulted in error: {error}"
                    yield Violation(self.name, binding, text, "", index)
                if run.left <= 0:
                    return

    def _annotate(self, binding: Binding, run: Evaluation, noted: dict[str, str]) -> Iterator[Violation]:
        for key, program in self._annotations:
            try:
                value = run.value(program)
            except EvaluationError as error:
                if self.fails:
                    yield Violation(self.name, binding, f"audit annotation {key}: {error}")
                continue
            if isinstance(value, str) and value.strip():
                full = f"{self.name}/{key}"
                values = [text for text in (noted.get(full), value.strip()) if text]
                noted[full] = ", ".join(dict.fromkeys(values))[: 10 * 1024]


def _message(run: Evaluation, said: Program | None) -> str:
    """Returns the text of the message expression; empty if it fails, is too long or has several lines."""
    if said is None:
        return ""
    try:
        text = run.value(said)
    except EvaluationError:
        return ""
    fits = isinstance(text, str) and len(text) <= MAX_MESSAGE and "\n" not in text
    return text.strip() if fits else ""
