"""Schemas: the wire types as OpenAPI components, described in the words of Kubernetes."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dray.api.objects import Object
from dray.api.wire_types import TYPES
from dray.server import list_types
from dray.server.list_types import versionless

_MODULES = {
    "meta": "io.k8s.apimachinery.pkg.apis.meta",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
STATUS = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"

_PLAIN: dict[str, Object] = {
    "str": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "bool": {"type": "boolean"},
    "float": {"type": "number", "format": "double"},
    "any": {},
}
_REFERENCED = {
    "quantity": QUANTITY,
    "time": TIME,
    "microtime": MICRO_TIME,
    "intstr": INT_OR_STRING,
    "raw": RAW,
}
WELL_KNOWN: dict[str, Object] = {
    QUANTITY: {"oneOf": [{"type": "string"}, {"type": "number"}]},
    TIME: {"type": "string", "format": "date-time"},
    MICRO_TIME: {"type": "string", "format": "date-time"},
    INT_OR_STRING: {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    RAW: {"type": "object"},
    STATUS: {"type": "object"},
    DELETE_OPTIONS: {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "dryRun": {"type": "array", "items": {"type": "string"}},
            "gracePeriodSeconds": {"type": "integer", "format": "int64"},
            "orphanDependents": {"type": "boolean"},
            "preconditions": {
                "type": "object",
                "properties": {"resourceVersion": {"type": "string"}, "uid": {"type": "string"}},
            },
            "propagationPolicy": {"type": "string"},
        },
    },
    LIST_META: {
        "type": "object",
        "properties": {
            "continue": {"type": "string"},
            "remainingItemCount": {"type": "integer", "format": "int64"},
            "resourceVersion": {"type": "string"},
            "selfLink": {"type": "string"},
        },
    },
}
_CLASS = re.compile(
    r'^class (\w+)\(DictMixin\):\n    r"""(.*?)"""\n(.*?)(?=^@dataclass|^class |\Z)', re.MULTILINE | re.DOTALL
)
_PARAMETER = re.compile(r"^ *\* \*\*(\S+)\*\* ``[^`]*`` - ?", re.MULTILINE)
_FIELD = re.compile(r"^    (\w+): '([^']*)'(.*)$", re.MULTILINE)
_JSON_NAME = re.compile(r"metadata=\{[\"']json[\"']: [\"']([^\"']+)[\"']")


def component(type_name: str) -> str:
    """`resource_v1.DeviceRequest` → `io.k8s.api.resource.v1.DeviceRequest`."""
    module, _, name = type_name.partition(".")
    group, _, version = module.partition("_")
    return f"{_MODULES.get(group, f'io.k8s.api.{group}')}.{version}.{name}"


def reference(name: str) -> Object:
    return {"$ref": f"#/components/schemas/{name}"}


def components(roots: list[str]) -> dict[str, Object]:
    """The schemas of the types and of everything they contain."""
    found: dict[str, Object] = {}
    waiting = list(roots)
    while waiting:
        type_name = waiting.pop()
        if component(type_name) in found:
            continue
        found[component(type_name)] = _schema(type_name)
        for mark in TYPES[type_name].values():
            base = mark.lstrip("!*[]{}")
            if base in TYPES:
                waiting.append(base)
    return {**found, **WELL_KNOWN}


def _schema(type_name: str) -> Object:
    told = describe(type_name)
    properties = {
        name: _member(type_name, name, mark.lstrip("!*"), told.fields.get(name, ""))
        for name, mark in TYPES[type_name].items()
    }
    return {
        **({"description": told.text} if told.text else {}),
        "type": "object",
        **({"required": list(told.required)} if told.required else {}),
        "properties": properties,
    }


def _member(owner: str, name: str, wire: str, description: str) -> Object:
    schema = _value(wire)
    if "$ref" in schema:
        schema = {"allOf": [schema], **({"default": {}} if wire in TYPES else {})}
    if wire.startswith("[]"):
        schema.update(_list_extensions(owner, name))
    return {**({"description": description} if description else {}), **schema}


def _value(wire: str) -> Object:
    if wire.startswith("[]"):
        return {"type": "array", "items": _value(wire[2:])}
    if wire.startswith("{}"):
        return {"type": "object", "additionalProperties": _value(wire[2:])}
    if wire in _PLAIN:
        return dict(_PLAIN[wire])
    if wire in _REFERENCED:
        return reference(_REFERENCED[wire])
    return reference(component(wire))


def _list_extensions(owner: str, name: str) -> Object:
    """How the list is merged: for clients that make patches."""
    path = f"{versionless(owner)}.{name}"
    found: Object = {}
    rule = list_types.merge_rule(owner, name)
    if not rule.replace:
        found["x-kubernetes-patch-strategy"] = "merge"
        if rule.key:
            found["x-kubernetes-patch-merge-key"] = rule.key
    if path in list_types.KEYED:
        found["x-kubernetes-list-type"] = "map"
        found["x-kubernetes-list-map-keys"] = list(list_types.KEYED[path])
    elif path in list_types.SETS:
        found["x-kubernetes-list-type"] = "set"
    else:
        found["x-kubernetes-list-type"] = "atomic"
    return found


class Description(NamedTuple):
    text: str = ""
    required: tuple[str, ...] = ()
    fields: dict[str, str] = {}  # noqa: RUF012 - never changed


def describe(type_name: str) -> Description:
    """Of `resource_v1.DeviceRequest`: its text, the fields a client must give, and the text of each field.

    They are read from the sources of lightkube-models, a module when it is first asked for: only `/openapi/v3` shows
    them, and importing the models would need an HTTP client. Without the package there are none.
    """
    module, _, name = type_name.partition(".")
    return _module(module).get(name, Description())


@cache
def _module(name: str) -> dict[str, Description]:
    spec = importlib.util.find_spec("lightkube")
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        source = Path(folder, "models", f"{name}.py")
        if source.is_file():
            found = _CLASS.findall(source.read_text(encoding="utf-8"))
            return {class_name: _description(doc, body) for class_name, doc, body in found}
    return {}


def _description(doc: str, body: str) -> Description:
    head, _, rest = doc.partition("**parameters**")
    parts = _PARAMETER.split(rest)
    fields = dict(zip(parts[1::2], map(_unwrapped, parts[2::2]), strict=True))
    return Description(_unwrapped(head), tuple(sorted(_required(body))), fields)


def _required(body: str) -> list[str]:
    names = []
    for name, annotation, rest in _FIELD.findall(body):
        if not annotation.startswith("Optional["):
            renamed = _JSON_NAME.search(rest)
            names.append(renamed[1] if renamed else name)
    return names


def _unwrapped(text: str) -> str:
    return " ".join(text.split())
