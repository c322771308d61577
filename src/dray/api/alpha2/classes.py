"""ResourceClass of v1alpha2: a DeviceClass with a selector for its driver."""

from __future__ import annotations

from typing import Any

from dray.api.alpha2.parameters import ReferencedDocuments, driver_name, only_driver, opaque, selector, translate
from dray.api.alpha2.types import Notes, shorten
from dray.api.objects import mapping, sequence, text, walk

_MEMBERS = (
    "apiVersion",
    "kind",
    "metadata",
    "spec",
    "driverName",
    "parametersRef",
    "suitableNodes",
    "structuredParameters",
    "defaultClaimParametersRef",
)


def convert_class(document: dict[str, Any], surroundings: ReferencedDocuments, notes: Notes) -> dict[str, Any]:
    content = {**walk(document, "spec"), **document}
    driver = driver_name(document)
    spec: dict[str, Any] = {}
    if driver:
        spec["selectors"] = [only_driver(driver)]
    else:
        notes.add("driverName", "missing: without a selector the class takes every device; name the driver's")
    _note_the_rest(content, notes)
    parameters = mapping(content.get("parametersRef"))
    if parameters:
        _add_parameters(spec, parameters, driver, surroundings, notes)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": document.get("metadata", {}),
        "spec": spec,
    }


def _note_the_rest(content: dict[str, Any], notes: Notes) -> None:
    if content.get("suitableNodes"):
        what = "dropped: a class does not select nodes; give the pods a node affinity with"
        notes.add("suitableNodes", f"{what} {shorten(content['suitableNodes'])}")
    if isinstance(content.get("structuredParameters"), dict):
        held = shorten(content["structuredParameters"])
        notes.add(
            "structuredParameters", f"dropped, but for a driver's name in it: v1alpha2 has a boolean here, not {held}"
        )
    elif content.get("structuredParameters") is False:
        notes.add("structuredParameters", "dropped: in v1 the scheduler allocates; the driver has to publish slices")
    if content.get("defaultClaimParametersRef"):
        what = "dropped: a class has no default request; claims given along with it carry it themselves"
        notes.add("defaultClaimParametersRef", what)
    notes.leftovers(content, _MEMBERS, "", "a class")


def _add_parameters(
    spec: dict[str, Any], reference: dict[str, Any], driver: str, surroundings: ReferencedDocuments, notes: Notes
) -> None:
    structured = surroundings.structured("ResourceClassParameters", reference)
    vendor = surroundings.vendor(reference)
    if structured is not None:
        _add_structured(spec, structured, notes)
    elif vendor is not None:
        content = {key: value for key, value in vendor.items() if key != "metadata"}
        spec["config"] = [opaque(driver, content)]
        what = f"carried over as opaque configuration for driver {driver}"
        notes.add("parametersRef", f"{what}: check that its v1 release understands {vendor.get('kind')}")
    else:
        what = f"{reference.get('kind')} {reference.get('name')} is not among the given documents"
        notes.add("parametersRef", f"dropped: {what}; put the driver's settings into spec.config")


def _add_structured(spec: dict[str, Any], parameters: dict[str, Any], notes: Notes) -> None:
    for entry in map(mapping, sequence(parameters.get("vendorParameters"))):
        config = opaque(text(entry.get("driverName")), mapping(entry.get("parameters")))
        spec.setdefault("config", []).append(config)
    for entry in map(mapping, sequence(parameters.get("filters"))):
        expression = text(walk(entry, "namedResources").get("selector"))
        translated = translate(expression, text(entry.get("driverName")))
        if translated is None:
            notes.add("parametersRef", f"filter dropped, write it anew in spec.selectors: {expression}")
        elif translated:
            notes.add("parametersRef", f"filter rewritten, check the names of the attributes: {translated}")
            spec.setdefault("selectors", []).append(selector(translated))
