"""MutatingAdmissionPolicy: compiled with its bindings, and what it makes of an object.

Mutations are carried out one after the other, each on what the one before left. A configuration is merged as by
server-side apply; a JSON patch is carried out as by PATCH.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dray.api.gates import FeatureGates
from dray.api.intake import Refusal
from dray.api.objects import Object
from dray.cel import types as t
from dray.cel.errors import EvaluationError
from dray.cel.policy import JSON_PATCH, OBJECT, compile_policy
from dray.cel.program import Program
from dray.cel.values import Value
from dray.server.admission.dynamic.expressions import Evaluation, loops
from dray.server.admission.dynamic.policies import Planned, Policy
from dray.server.admission.dynamic.request import AdmissionRequest
from dray.server.fieldmanager import server_side
from dray.server.part_kinds import PartKind
from dray.server.patches.json_patch import json_patch
from dray.server.resources import Resource
from dray.server.status import ApiError

_MANAGER = "mutating-admission-policy"


class MutatingPolicy(Policy):
    def __init__(self, policy: Object, bindings: list[Object]) -> None:
        super().__init__(policy, bindings, mutation=True)
        environment = self.declared.environment()
        self.again = self.spec.get("reinvocationPolicy") == "IfNeeded"
        self._mutations: list[tuple[bool, Program]] = []
        for mutation in self.spec.get("mutations") or ():
            merges = mutation["patchType"] == "ApplyConfiguration"
            text = mutation["applyConfiguration" if merges else "jsonPatch"]["expression"]
            result = OBJECT if merges else t.list_of(JSON_PATCH)
            self._mutations.append((merges, compile_policy(text, environment, result)))
        self.loops = loops(self._programs())

    def _programs(self) -> Iterator[Program]:
        yield from self.declared.programs.values()
        yield from self.conditions.programs
        yield from (program for _, program in self._mutations)

    def mutated(self, plan: list[Planned], shape: Resource | PartKind, now: str, gates: FeatureGates) -> Object | None:
        """Returns the mutated document, None if nothing changed; raises MutationError."""
        document: Object | None = None
        for planned in plan:
            try:
                if planned.error:
                    raise EvaluationError(f"failed to configure binding: {planned.error}")
                for values in planned.values:
                    seen = values if document is None else {**values, "object": document}
                    document = self._mutate(planned._replace(values=[seen]), shape, now, gates) or document
            except (EvaluationError, ApiError) as error:
                if self.fails:
                    raise MutationError(self.name, planned.binding.name, str(error)) from None
        return document

    def _mutate(self, planned: Planned, shape: Resource | PartKind, now: str, gates: FeatureGates) -> Object | None:
        document: Object | None = None
        for run in self.runs(planned):
            for merges, program in self._mutations:
                if document is not None:
                    run = Evaluation({**planned.values[0], "object": document}, run.left)
                    run.set_variables(self.declared.programs)
                before = document if document is not None else planned.values[0]["object"]
                value = _native(run.value(program))
                changed = _merged(before, value, shape, now) if merges else json_patch(before, value)
                document = _read(changed, shape, now, gates)
        return document


class MutationError(Exception):
    def __init__(self, policy: str, binding: str, why: str) -> None:
        super().__init__(f"MutatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {why}")


def _read(document: Any, shape: Resource | PartKind, now: str, gates: FeatureGates) -> Object:
    """Decodes the result of a mutation for the next one; raises EvaluationError if it is not an object of the kind."""
    if not isinstance(document, dict):
        raise EvaluationError("the patch leaves no object")
    decoded = shape.decode(document, now, gates)
    if isinstance(decoded, Refusal):
        raise EvaluationError(decoded.message)
    return shape.answer(decoded)


def _merged(document: Object, configuration: Object, shape: Resource | PartKind, now: str) -> Object:
    """Merges the configuration by server-side apply; keeps managedFields, which the whole request sets later."""
    managed = document["metadata"].get("managedFields")
    bare = {**document, "metadata": {key: each for key, each in document["metadata"].items() if key != "managedFields"}}
    applied = {**configuration, "apiVersion": shape.api_version, "kind": shape.kind}
    merged = server_side.apply(bare, applied, _MANAGER, kind=shape.tracked, now=now, force=True)
    metadata = {key: each for key, each in merged["metadata"].items() if key != "managedFields"}
    return {**merged, "metadata": {**metadata, **({"managedFields": managed} if managed is not None else {})}}


def _native(value: Value) -> Any:
    """A value of an expression as JSON; raises EvaluationError for one that has no such form."""
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise EvaluationError("only text can be the key of a member")
        return {key: _native(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_native(item) for item in value]
    if value is None or isinstance(value, (bool, str, float)):
        return value
    if isinstance(value, int):
        return int(value)
    raise EvaluationError("a value of this type cannot be put into an object: make text of it with string()")


async def plan(policy: MutatingPolicy, request: AdmissionRequest, version: str) -> list[Planned]:
    return await policy.plan(request, version) if request.object is not None else []
