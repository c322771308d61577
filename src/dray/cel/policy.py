"""Policy expressions: what admission policies, their mutations and the conditions of webhooks are compiled against.

Objects are of any type unless a schema is given (`objects`), which is how a policy is checked against the kinds that it
matches. `variables` are those that stand before the expression. A mutation may make `Object{...}` of any fields, and
`JSONPatch{...}`.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, cast

from dray.cel import types as t
from dray.cel.declarations import Function, Library
from dray.cel.environment import DEVICE, Environment, Fields, merged
from dray.cel.errors import CompileError, no_such_overload
from dray.cel.library import authorizer
from dray.cel.program import Program
from dray.cel.selector import MAX_LENGTH, compile_text
from dray.cel.types import Type
from dray.cel.values import Value

BUDGET: Final = 10_000_000
CONDITIONS_BUDGET: Final = BUDGET // 4
OBJECT: Final = Type("object", name="Object")
JSON_PATCH: Final = Type("object", name="JSONPatch")
_VARIABLES: Final = Type("object", name="kubernetes.variables")
_REQUEST: Final = Type("object", name="kubernetes.AdmissionRequest")
_NAMESPACE: Final = Type("object", name="kubernetes.Namespace")
_USER: Final = Type("object", name="kubernetes.UserInfo")
_KIND: Final = Type("object", name="kubernetes.GroupVersionKind")
_RESOURCE: Final = Type("object", name="kubernetes.GroupVersionResource")
_METADATA: Final = Type("object", name="kubernetes.NamespaceMetadata")
_SPEC: Final = Type("object", name="kubernetes.NamespaceSpec")
_STATUS: Final = Type("object", name="kubernetes.NamespaceStatus")
_TEXTS: Final = t.list_of(t.STRING)
_TEXT_MAP: Final = t.map_of(t.STRING, t.STRING)

_FIELDS: Final[dict[str, Fields]] = {
    _REQUEST.name: {
        **dict.fromkeys(("kind", "requestKind"), _KIND),
        **dict.fromkeys(("resource", "requestResource"), _RESOURCE),
        **dict.fromkeys(("subResource", "requestSubResource", "name", "namespace", "operation", "uid"), t.STRING),
        "userInfo": _USER,
        "dryRun": t.BOOL,
        "options": t.DYN,
    },
    _USER.name: {
        "username": t.STRING,
        "uid": t.STRING,
        "groups": _TEXTS,
        "extra": t.map_of(t.STRING, _TEXTS),
    },
    _KIND.name: dict.fromkeys(("group", "version", "kind"), t.STRING),
    _RESOURCE.name: dict.fromkeys(("group", "version", "resource"), t.STRING),
    _NAMESPACE.name: {"metadata": _METADATA, "spec": _SPEC, "status": _STATUS},
    _METADATA.name: {
        **dict.fromkeys(("name", "generateName", "namespace", "UID", "resourceVersion"), t.STRING),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), t.DYN),
        **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), t.INT),
        **dict.fromkeys(("labels", "annotations"), _TEXT_MAP),
        "finalizers": _TEXTS,
    },
    _SPEC.name: {"finalizers": _TEXTS},
    _STATUS.name: {"phase": t.STRING},
}
_MADE: Final[dict[str, Fields]] = {
    JSON_PATCH.name: {"op": t.STRING, "path": t.STRING, "from": t.STRING, "value": t.DYN}
}
_JSON_POINTERS: Final = Library("jsonpatch")


def _escape_key(key: Value) -> str:
    if type(key) is not str:
        raise no_such_overload("jsonpatch.escapeKey")
    return key.replace("~", "~0").replace("/", "~1")


_JSON_POINTERS.function("jsonpatch.escapeKey", _escape_key, "jsonpatch_escapeKey: (string) -> string")


class _Objects(dict[str, Fields]):
    """Fields by type; what is below `Object` may have any."""

    def __missing__(self, name: str) -> Fields:
        if name == "Object" or name.startswith("Object."):
            return ANYTHING
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default


class _Anything(dict[str, Type]):
    def get(self, name: str, default: Any = None) -> Any:
        return t.DYN


ANYTHING: Final = _Anything()


@cache
def _functions(*, mutation: bool, authorizes: bool) -> dict[str, Function]:
    libraries = [authorizer.LIBRARY] if authorizes else []
    return merged(DEVICE.functions, [*libraries, *([_JSON_POINTERS] if mutation else [])])


def environment(
    *,
    variables: Mapping[str, Type] | None = None,
    params: bool = False,
    authorizes: bool = True,
    webhook: bool = False,
    mutation: bool = False,
    object_type: Type = t.DYN,
    params_type: Type = t.DYN,
    objects: Mapping[str, Fields] | None = None,
) -> Environment:
    """`variables` is None for conditions, which are asked before the rest; `webhook`: those of webhooks, with less."""
    declared: dict[str, Type] = {"object": object_type, "oldObject": object_type, "request": _REQUEST}
    if params:
        declared["params"] = params_type
    if authorizes:
        declared |= {"authorizer": t.AUTHORIZER, "authorizer.requestResource": t.RESOURCE_CHECK}
    if not webhook:
        declared["namespaceObject"] = _NAMESPACE
    if variables is not None:
        declared["variables"] = _VARIABLES
    fields = _Objects() if mutation else {}
    fields.update({**_FIELDS, **(_MADE if mutation else {}), _VARIABLES.name: variables or {}})
    constants = {**DEVICE.constants, **(authorizer.LIBRARY.constants if authorizes else {})}
    return Environment(
        "policy",
        declared,
        _functions(mutation=mutation, authorizes=authorizes),
        constants,
        object_fields=fields if objects is None else ChainMap(fields, cast("dict[str, Fields]", objects)),
        made=frozenset(_MADE) if mutation else frozenset(),
    )


def compile_policy(expression: str, env: Environment, *results: Type) -> Program:
    """A program whose value is of one of the types, or of any if none is given; raises CompileError."""
    if len(expression.encode("utf-8", "surrogatepass")) > MAX_LENGTH:
        raise CompileError(f"too long: must have at most {MAX_LENGTH} bytes")
    program = compile_text(expression, env)
    if results and program.result_type not in results:
        names = [str(each) for each in results]
        raise CompileError(f"must evaluate to {names[0] if len(names) == 1 else f'one of {names}'}")
    return program
