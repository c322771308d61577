"""Schemas: the wire types as OpenAPI components, described in the words of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from dray.api.catalogue import split_api_version
from dray.api.objects import Object
from dray.api.wire_fields import MODULES
from dray.api.wire_types import TYPES, Field, fields
from dray.server import list_types
from dray.server.list_types import versionless
from dray.server.openapi.descriptions import describe

_MODULES: Final = {
    "meta": "io.k8s.apimachinery.pkg.apis.meta",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_DEFINITIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
PATCH: Final = f"{_META}.Patch"
# Types that are not JSON objects, with their schemas.
_SPECIAL: Final[dict[str, tuple[str, Object]]] = {
    "quantity": (QUANTITY, {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    "intstr": (INT_OR_STRING, {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
    "time": (f"{_META}.Time", {"type": "string", "format": "date-time"}),
    "microtime": (f"{_META}.MicroTime", {"type": "string", "format": "date-time"}),
    "raw": ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object"}),
    "fields": (f"{_META}.FieldsV1", {"type": "object"}),
    "any": (f"{_DEFINITIONS}.JSON", {}),
    "or_array": (f"{_DEFINITIONS}.JSONSchemaPropsOrArray", {}),
    "or_bool": (f"{_DEFINITIONS}.JSONSchemaPropsOrBool", {}),
    "or_strings": (f"{_DEFINITIONS}.JSONSchemaPropsOrStringArray", {}),
    "patch": (PATCH, {"type": "object"}),
}
_PLAIN: Final[dict[str, Object]] = {
    "str": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "bool": {"type": "boolean"},
    "float": {"type": "number", "format": "double"},
}
_ZEROS: Final = {"str": "", "int32": 0, "int64": 0, "bool": False, "float": 0}
# Defaults of optional fields that are not a zero value.
_DEFAULTS: Final[dict[str, Any]] = {
    "core.AzureDiskVolumeSource.cachingMode": "ReadWrite",
    "core.AzureDiskVolumeSource.fsType": "ext4",
    "core.AzureDiskVolumeSource.kind": "Shared",
    "core.AzureDiskVolumeSource.readOnly": False,
    "core.ContainerPort.protocol": "TCP",
    "core.FileKeySelector.optional": False,
    "core.ISCSIPersistentVolumeSource.iscsiInterface": "default",
    "core.ISCSIVolumeSource.iscsiInterface": "default",
    "core.RBDPersistentVolumeSource.keyring": "/etc/ceph/keyring",
    "core.RBDPersistentVolumeSource.pool": "rbd",
    "core.RBDPersistentVolumeSource.user": "admin",
    "core.RBDVolumeSource.keyring": "/etc/ceph/keyring",
    "core.RBDVolumeSource.pool": "rbd",
    "core.RBDVolumeSource.user": "admin",
    "core.ReplicationControllerSpec.replicas": 1,
    "core.ScaleIOPersistentVolumeSource.fsType": "xfs",
    "core.ScaleIOPersistentVolumeSource.storageMode": "ThinProvisioned",
    "core.ScaleIOVolumeSource.fsType": "xfs",
    "core.ScaleIOVolumeSource.storageMode": "ThinProvisioned",
    "core.ServicePort.protocol": "TCP",
    "resource.DeviceToleration.operator": "Equal",
    "resource.ResourcePoolStatusRequestSpec.limit": 100,
    "autoscaling.ScaleSpec.replicas": 0,
    "certificates.PodCertificateRequestSpec.maxExpirationSeconds": 86400,
    "core.ReplicationControllerSpec.minReadySeconds": 0,
    "core.GRPCAction.service": "",
    **dict.fromkeys(
        [
            f"core.{owner}.name"
            for owner in (
                "ConfigMapEnvSource",
                "ConfigMapKeySelector",
                "ConfigMapProjection",
                "ConfigMapVolumeSource",
                "LocalObjectReference",
                "SecretEnvSource",
                "SecretKeySelector",
                "SecretProjection",
            )
        ],
        "",
    ),
    "scheduling.CompositePodGroupSpec.disruptionMode": {"single": {}},
    "scheduling.PodGroupSpec.disruptionMode": {"single": {}},
}


def component(type_name: str) -> str:
    """Returns the schema name: `resource_v1.DeviceRequest` → `io.k8s.api.resource.v1.DeviceRequest`."""
    if type_name in _SPECIAL:
        return _SPECIAL[type_name][0]
    module, _, name = type_name.partition(".")
    group, _, version = module.partition("_")
    return f"{_MODULES.get(group, f'io.k8s.api.{group}')}.{version}.{name}"


def reference(name: str) -> Object:
    return {"$ref": f"#/components/schemas/{name}"}


def components(roots: Iterable[str], group: str, version: str) -> dict[str, Object]:
    """Returns the schemas of the types and of everything they contain, for the document of a group version."""
    found: dict[str, Object] = {}
    waiting = list(roots)
    while waiting:
        type_name = waiting.pop()
        name = component(type_name)
        if name in found:
            continue
        if type_name in _SPECIAL:
            found[name] = _SPECIAL[type_name][1]
            continue
        found[name] = {**_schema(type_name), **_identity(type_name, group, version)}
        for member in fields(type_name):
            base = _wire(type_name, member).lstrip("[]{}")
            if base in TYPES or base in _SPECIAL:
                waiting.append(base)
    return dict(sorted(found.items()))


def _identity(type_name: str, group: str, version: str) -> Object:
    """Returns the group, version and kind of a type; options belong to every group."""
    module, _, kind = type_name.partition(".")
    if not any(member.name == "kind" and member.numbers == (0,) for member in fields(type_name)):
        return {}
    if module == "meta_v1":
        found = [("", "v1")]
        if kind == "DeleteOptions" and (group, version) not in found:
            found.append((group, version))
    else:
        found = [split_api_version(name) for name, each in MODULES.items() if each == module]
    return {"x-kubernetes-group-version-kind": [{"group": g, "kind": kind, "version": v} for g, v in found]}


def _schema(type_name: str) -> Object:
    told = describe(type_name)
    properties = {
        member.name: _member(type_name, member, told.fields.get(member.name, "")) for member in fields(type_name)
    }
    return {
        **({"description": told.text} if told.text else {}),
        "type": "object",
        **({"required": list(told.required)} if told.required else {}),
        **({"properties": properties} if properties else {}),
        **({"x-kubernetes-map-type": "atomic"} if list_types.is_atomic(type_name) else {}),
    }


def _wire(owner: str, member: Field) -> str:
    """Returns the type of a member; FieldsV1 has a special type, because JSON does not show it."""
    if owner == "meta_v1.ManagedFieldsEntry" and member.name == "fieldsV1":
        return "fields"
    outer = member.type[: -len("strings")]
    return f"{outer}[]str" if member.type in ("strings", "{}strings") else member.type


def _member(owner: str, member: Field, description: str) -> Object:
    wire = _wire(owner, member)
    more: Object = {"description": description} if description else {}
    path = f"{versionless(owner)}.{member.name}"
    if path in _DEFAULTS:
        more["default"] = _DEFAULTS[path]
    elif member.marks == "!" and (wire in _ZEROS or wire in TYPES):
        more["default"] = _ZEROS.get(wire, {})
    more |= _extensions(owner, member.name, wire)
    schema = _value(wire)
    if "$ref" in schema and more:
        schema = {"allOf": [schema]}
    return {**more, **schema}


def _value(wire: str) -> Object:
    if wire.startswith("[]"):
        return {"type": "array", "items": _value(wire[2:])}
    if wire.startswith("{}"):
        return {"type": "object", "additionalProperties": _value(wire[2:])}
    return dict(_PLAIN[wire]) if wire in _PLAIN else reference(component(wire))


def _extensions(owner: str, name: str, wire: str) -> Object:
    """Returns the extensions that tell clients how a value is merged."""
    path = f"{versionless(owner)}.{name}"
    found: Object = {}
    rule = list_types.merge_rule(owner, name)
    if path in list_types.RETAIN_KEYS:
        found["x-kubernetes-patch-strategy"] = "retainKeys" if not wire.startswith("[]") else "merge,retainKeys"
    elif wire.startswith("[]") and not rule.replace:
        found["x-kubernetes-patch-strategy"] = "merge"
    elif path in list_types.REPLACED_OBJECTS:
        found["x-kubernetes-patch-strategy"] = "replace"
    if wire.startswith("[]"):
        if not rule.replace and rule.key:
            found["x-kubernetes-patch-merge-key"] = rule.key
        # The items of a list of objects are no field of an object.
        found |= _list_type(path) if TYPES[owner].get("metadata") != "!meta_v1.ListMeta" else {}
    elif path in list_types.ATOMIC_MAPS:
        found["x-kubernetes-map-type"] = "atomic"
    elif path in list_types.GRANULAR_OBJECTS:
        found["x-kubernetes-map-type"] = "granular"
    return found


def _list_type(path: str) -> Object:
    if path in list_types.KEYED:
        return {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": list(list_types.KEYED[path]),
        }
    return {"x-kubernetes-list-type": "set" if path in list_types.SETS else "atomic"}
