"""Conversion of the removed kinds of resource.k8s.io/v1alpha3 to v1.

Kubernetes 1.31 had claims, templates, classes and slices in v1alpha3. They are those of v1beta1 but for
drivers that allocate by themselves (`controller`, `suitableNodes`), which are gone, and capacities without
`value`.
"""

from __future__ import annotations

from typing import Any, Final

from dray.api.alpha2.types import Note, Notes, shorten
from dray.api.conversion import convert, oddities, unreadable
from dray.api.errors import ErrorType
from dray.api.objects import mapping

API_VERSION: Final = "resource.k8s.io/v1alpha3"
KINDS: Final = frozenset({"ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice"})


def to_v1(document: dict[str, Any]) -> tuple[dict[str, Any], list[Note]]:
    """Converts a v1alpha3 document to v1; returns it with notes on what was lost. Raises ConversionError."""
    notes = Notes()
    changed = {**document, "apiVersion": "resource.k8s.io/v1beta1"}
    if changed.pop("status", None):
        notes.add("status", "dropped: the devices have to be allocated again")
    if isinstance(changed.get("spec"), dict):
        changed["spec"] = _modern(document.get("kind"), dict(changed["spec"]), notes)
    odd = oddities(changed)
    if problems := [error for error in odd if error.type is not ErrorType.UNKNOWN_FIELD]:
        raise unreadable(problems)
    for error in odd:
        notes.add(error.field, f"{error.detail}, kept as it stands")
    return convert(changed, "v1"), notes.found


def _modern(kind: Any, spec: dict[str, Any], notes: Notes) -> dict[str, Any]:
    if kind == "ResourceClaim":
        _drop_controller(spec, "spec", notes)
    elif kind == "ResourceClaimTemplate" and isinstance(spec.get("spec"), dict):
        spec["spec"] = dict(spec["spec"])
        _drop_controller(spec["spec"], "spec.spec", notes)
    elif kind == "DeviceClass" and (nodes := spec.pop("suitableNodes", None)):
        what = "dropped: a class does not select nodes; give the pods a node affinity with"
        notes.add("spec.suitableNodes", f"{what} {shorten(nodes)}")
    elif kind == "ResourceSlice" and isinstance(spec.get("devices"), list):
        spec["devices"] = [_with_capacity_values(device) for device in spec["devices"]]
    return spec


def _drop_controller(spec: dict[str, Any], path: str, notes: Notes) -> None:
    if controller := spec.pop("controller", None):
        what = f"dropped: the scheduler allocates, not {shorten(controller)}; the driver has to publish slices"
        notes.add(f"{path}.controller", what)


def _with_capacity_values(device: Any) -> Any:
    basic = mapping(mapping(device).get("basic"))
    if not isinstance(basic.get("capacity"), dict):
        return device
    capacity = {
        name: value if isinstance(value, dict) else {"value": value} for name, value in basic["capacity"].items()
    }
    return {**device, "basic": {**basic, "capacity": capacity}}
