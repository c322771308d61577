"""Pods of the time before 1.31, whose claims stood under `source`."""

from __future__ import annotations

from typing import Any

from dray.api.alpha2.notes import Note, Notes, shorten
from dray.api.objects import mapping, sequence

_REFERENCES = ("resourceClaimName", "resourceClaimTemplateName")


def without_source(pod_spec: dict[str, Any], path: str = "spec") -> tuple[dict[str, Any], list[Note]]:
    """The pod spec with the references of its claims one level up, where they stand today."""
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
