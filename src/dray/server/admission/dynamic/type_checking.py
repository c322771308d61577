"""Type checking of policies: their expressions against the schemas of the kinds that they match.

Built-in kinds have the types of the API, custom kinds those of their schemas. What is not known to be of one type
(quantities, times, numbers or text) may be anything. What is found are warnings, in the status of the policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dray.api.objects import Object, mapping
from dray.api.wire_types import TYPES
from dray.cel import types as t
from dray.cel.environment import Fields
from dray.cel.errors import CompileError
from dray.cel.policy import compile_policy
from dray.cel.types import Type
from dray.server.admission.dynamic.expressions import Declarations, texts
from dray.server.context import Context
from dray.server.resources import Resource

MOST_KINDS = 10
# Expressions are checked against each kind; a policy with more text is checked against fewer kinds.
MOST_TEXT = 64 * 1024
_PLAIN = {"str": t.STRING, "int32": t.INT, "int64": t.INT, "bool": t.BOOL}
_JSON = {"string": t.STRING, "integer": t.INT, "boolean": t.BOOL}
_METADATA = "meta_v1.ObjectMeta"


class WireObjects(Mapping[str, Fields]):
    """Fields of built-in types and of one custom kind."""

    def __init__(self) -> None:
        self.custom: dict[str, Fields] = {}
        self._read: dict[str, Fields] = {}

    def __getitem__(self, name: str) -> Fields:
        if name in self.custom:
            return self.custom[name]
        if name not in self._read:
            self._read[name] = {field: _wire_type(kind) for field, kind in TYPES[name].items()}
        return self._read[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self.custom or name in TYPES else default

    def __iter__(self) -> Iterator[str]:
        return iter(self.custom)

    def __len__(self) -> int:
        return len(self.custom)


def _wire_type(kind: str) -> Type:
    kind = kind.lstrip("!*")
    if kind.startswith("[]"):
        return t.list_of(_wire_type(kind[2:]))
    if kind.startswith("{}"):
        return t.map_of(t.STRING, _wire_type(kind[2:]))
    if kind in TYPES:
        return Type("object", name=kind)
    return _PLAIN.get(kind, t.DYN)


def _schema_type(schema: Object, objects: WireObjects, name: str) -> Type:
    kind = schema.get("type")
    if kind == "array":
        return t.list_of(_schema_type(mapping(schema.get("items")), objects, f"{name}.@items"))
    if kind != "object" or schema.get("x-kubernetes-preserve-unknown-fields"):
        return _JSON.get(kind or "", t.DYN) if not schema.get("x-kubernetes-int-or-string") else t.DYN
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        return t.map_of(t.STRING, _schema_type(others, objects, f"{name}.@values"))
    members = mapping(schema.get("properties"))
    objects.custom[name] = {each: _schema_type(part, objects, f"{name}.{each}") for each, part in members.items()}
    return Type("object", name=name)


def _object_type(resource: Resource, objects: WireObjects) -> Type:
    if resource.custom_schema is None:
        return Type("object", name=resource.schema) if resource.schema else t.DYN
    name = f"{resource.api_version}.{resource.kind}"
    found = _schema_type(resource.custom_schema, objects, name)
    if found.kind == "object":
        metadata = Type("object", name=_METADATA)
        objects.custom[name] = {**objects.custom[name], "kind": t.STRING, "apiVersion": t.STRING, "metadata": metadata}
    return found


def warnings(context: Context, policy: Object) -> list[Object]:
    spec, found = policy["spec"], dict[str, list[str]]()
    size = sum(map(len, texts(spec)))
    for resource in _kinds(context, spec)[: max(1, MOST_TEXT // (size + 1))]:
        objects = WireObjects()
        schema = {"object_type": _object_type(resource, objects), "objects": objects}
        title = f"{resource.group}/{resource.version}" if resource.group else resource.version
        for path, problem in _problems(spec, schema):
            found.setdefault(path, []).append(f"{title}, Kind={resource.kind}: {problem}")
    return [{"fieldRef": path, "warning": "\n".join(problems)} for path, problems in found.items()]


def _problems(spec: Object, schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    declared = Declarations({**spec, "variables": []}, schema)
    for index, variable in enumerate(spec.get("variables") or ()):
        try:
            declared.add(variable)
        except CompileError as error:
            yield f"spec.variables[{index}].expression", str(error)
            return
    for member, expression in (("validations", "expression"), ("validations", "messageExpression")):
        for index, each in enumerate(spec.get(member) or ()):
            text = each.get(expression)
            if text:
                try:
                    compile_policy(text, declared.environment())
                except CompileError as error:
                    yield f"spec.{member}[{index}].{expression}", str(error)


def _kinds(context: Context, spec: Object) -> list[Resource]:
    """Returns the kinds that a policy names; kinds that only match a `*` are left out."""
    found: dict[tuple[str, str], Resource] = {}
    for rule in mapping(spec.get("matchConstraints")).get("resourceRules") or ():
        for group in rule.get("apiGroups") or ():
            for version in rule.get("apiVersions") or ():
                for plural in rule.get("resources") or ():
                    resource = context.registry.find(group, version, plural.partition("/")[0])
                    if resource is not None and ("/" not in plural or plural.endswith("/status")):
                        found.setdefault((resource.api_version, resource.kind), resource)
    return list(found.values())[:MOST_KINDS]
