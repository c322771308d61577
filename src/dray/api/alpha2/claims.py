"""Claims and templates of v1alpha2, and pods of that time."""

from __future__ import annotations

from typing import Any

from dray.api.alpha2.parameters import ReferencedDocuments, Wanted, from_structured, from_vendor, opaque
from dray.api.alpha2.types import Note, Notes, shorten
from dray.api.conversion import ConversionError, once
from dray.api.objects import mapping, sequence, text, walk

_API_VERSION = "resource.k8s.io/v1"
_SPEC_MEMBERS = (
    "resourceClassName",
    "parametersRef",
    "parameters",
    "allocationMode",
    "constraints",
    "devices",
)
_REFERENCES = ("resourceClaimName", "resourceClaimTemplateName")


def convert_claim(document: dict[str, Any], surroundings: ReferencedDocuments, notes: Notes) -> dict[str, Any]:
    if document.get("status"):
        notes.add("status", "dropped: the devices have to be allocated again")
    notes.leftovers(document, ("apiVersion", "kind", "metadata", "spec", "status"), "", "a claim")
    return {
        "apiVersion": _API_VERSION,
        "kind": "ResourceClaim",
        "metadata": document.get("metadata", {}),
        "spec": _Spec(walk(document, "spec"), "spec", surroundings, notes).converted(),
    }


def convert_template(document: dict[str, Any], surroundings: ReferencedDocuments, notes: Notes) -> dict[str, Any]:
    outer = walk(document, "spec")
    notes.leftovers(document, ("apiVersion", "kind", "metadata", "spec"), "", "a template")
    notes.leftovers(outer, ("metadata", "spec"), "spec", "a template")
    spec = _Spec(walk(outer, "spec"), "spec.spec", surroundings, notes).converted()
    return {
        "apiVersion": _API_VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": document.get("metadata", {}),
        "spec": {**({"metadata": outer["metadata"]} if outer.get("metadata") else {}), "spec": spec},
    }


class _Spec:
    """Collects the v1 spec of a claim during conversion."""

    def __init__(self, spec: dict[str, Any], path: str, surroundings: ReferencedDocuments, notes: Notes) -> None:
        self.spec, self.path, self.surroundings, self.notes = spec, path, surroundings, notes
        self.class_name = text(spec.get("resourceClassName"))

    def converted(self) -> dict[str, Any]:
        if "devices" in self.spec:
            return self._modern()
        if not self.class_name:
            raise ConversionError(f"{self.path}.resourceClassName: missing; a request in v1 needs a class")
        wanted = self._wanted()
        self._note_the_rest()
        requests = wanted.requests or [{}]
        names = ["device"] if len(requests) == 1 else [f"device-{index}" for index in range(len(requests))]
        devices: dict[str, Any] = {
            "requests": [
                {"name": name, "exactly": {"deviceClassName": self.class_name, **request}}
                for name, request in zip(names, requests, strict=True)
            ]
        }
        if wanted.config:
            devices["config"] = [
                {**({} if index is None else {"requests": [names[index]]}), **opaque(driver, parameters)}
                for index, driver, parameters in wanted.config
            ]
        return {"devices": devices}

    def _wanted(self) -> Wanted:
        inline = mapping(self.spec.get("parameters"))
        if inline:
            return from_vendor(inline, self._driver(), f"{self.path}.parameters", self.notes)
        reference, path = mapping(self.spec.get("parametersRef")), f"{self.path}.parametersRef"
        if not reference:
            resource_class = self.surroundings.resource_class(self.class_name)
            reference = mapping(resource_class.get("defaultClaimParametersRef"))
        if not reference:
            return Wanted()
        structured = self.surroundings.structured("ResourceClaimParameters", reference)
        if structured is not None:
            return from_structured(structured, path, self.notes)
        vendor = self.surroundings.vendor(reference)
        if vendor is not None:
            return from_vendor(vendor, self._driver(), path, self.notes)
        what = f"{reference.get('kind')} {reference.get('name')} is not among the given documents"
        instead = "say what the claim needs in devices.requests[0].exactly, and put settings into devices.config"
        self.notes.add(path, f"dropped: {what}; {instead}")
        return Wanted()

    def _driver(self) -> str:
        known = self.surroundings.driver_of(self.class_name)
        if not known:
            what = f"the class {self.class_name!r} is not given: its name is taken as the name of the driver"
            self.notes.add(f"{self.path}.resourceClassName", what)
        return known or self.class_name

    def _note_the_rest(self) -> None:
        mode = self.spec.get("allocationMode")
        if mode == "Immediate":
            what = "dropped: v1 allocates when the first pod that uses the claim is scheduled"
            self.notes.add(f"{self.path}.allocationMode", what)
        elif mode not in (None, "", "WaitForFirstConsumer"):
            self.notes.add(f"{self.path}.allocationMode", f"dropped: there is no allocation mode {shorten(mode)}")
        for index, constraint in enumerate(sequence(self.spec.get("constraints"))):
            self._note_constraint(f"{self.path}.constraints[{index}]", mapping(constraint))
        self.notes.leftovers(self.spec, _SPEC_MEMBERS, self.path, "the spec of a claim")

    def _note_constraint(self, path: str, constraint: dict[str, Any]) -> None:
        for member, value in constraint.items():
            if member == "nodeSelector":
                instead = f"put {shorten(value)} into spec.nodeSelector of the pod"
                what = f"dropped: a claim does not select nodes; {instead}"
                if self.surroundings.selected:
                    what = f"moved: a claim does not select nodes; {shorten(value)} is now in the pods that use it"
            else:
                what = f"dropped: v1alpha2 had no constraints; it held {shorten(value)}"
            self.notes.add(f"{path}.{member}", what)

    def _modern(self) -> dict[str, Any]:
        """v1alpha2 never had `devices`: only the version is wrong. The shape is v1 or v1beta1."""
        self.notes.add(f"{self.path}.devices", "not in v1alpha2; taken as it stands")
        self.notes.leftovers(self.spec, ("devices",), self.path, "the spec of a claim")
        devices = dict(mapping(self.spec["devices"]))
        requests = []
        for request in map(mapping, sequence(devices.get("requests"))):
            flat = {key: value for key, value in request.items() if key not in ("name", "exactly", "firstAvailable")}
            kept = {key: value for key, value in request.items() if key not in flat}
            once(request.get("name"), flat, mapping(kept.get("exactly")))
            requests.append({**kept, "exactly": {**mapping(kept.get("exactly")), **flat}} if flat else kept)
        return {"devices": {**devices, "requests": requests}}


def without_source(pod_spec: dict[str, Any], path: str = "spec") -> tuple[dict[str, Any], list[Note]]:
    """The pod spec with the references of its claims one level up: before 1.31 they stood under `source`."""
    notes = Notes()
    claims = []
    given = sequence(pod_spec.get("resourceClaims"))
    for index, entry in enumerate(given):
        source = mapping(entry).get("source")
        if not isinstance(source, dict):
            claims.append(entry)
            continue
        place = f"{path}.resourceClaims[{index}].source"
        notes.leftovers(source, _REFERENCES, place, "a pod's claim")
        kept = {key: value for key, value in entry.items() if key != "source"}
        for key in _REFERENCES:
            if key in source and key in kept and source[key] != kept[key]:
                what = f"dropped: the entry names {shorten(kept[key])} already; it held {shorten(source[key])}"
                notes.add(f"{place}.{key}", what)
        claims.append({**kept, **{key: source[key] for key in _REFERENCES if key in source and key not in kept}})
    if claims == given:
        return pod_spec, []
    return {**pod_spec, "resourceClaims": claims}, notes.found
