"""The types of the fields of v1alpha2: what has another one cannot be read, and must not be lost.

A path ends in `[]` for the items of a list. Fields that manifests in the wild have besides (inline parameters, node
selectors as constraints) are among them. Unknown fields are not an error here: they become notes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from dray.api.errors import ErrorType, FieldError, render
from dray.api.objects import mapping, sequence
from dray.api.schema import describe

_REFERENCE: Final = {"": dict, ".apiGroup": str, ".kind": str, ".name": str, ".namespace": str}
_NAMES: Final = {str: "a string", dict: "an object", list: "a list", bool: "a boolean", (bool, dict): "a boolean"}


def _below(path: str, types: dict[str, Any]) -> dict[str, Any]:
    return {f"{path}{name}": kind for name, kind in types.items()}


_CLAIM_SPEC: Final = {
    "": dict,
    ".resourceClassName": str,
    ".allocationMode": str,
    ".parameters": dict,
    **_below(".parametersRef", _REFERENCE),
    ".constraints": list,
    ".constraints[]": dict,
    ".devices": dict,
    ".devices.requests": list,
    ".devices.requests[]": dict,
    ".devices.requests[].exactly": dict,
}
_CLASS: Final = {
    "driverName": str,
    "suitableNodes": dict,
    "structuredParameters": (bool, dict),
    **_below("parametersRef", _REFERENCE),
    **_below("defaultClaimParametersRef", _REFERENCE),
}
_TYPES: Final[dict[str, dict[str, Any]]] = {
    "ResourceClass": {**_CLASS, "spec": dict, **_below("spec.", _CLASS)},
    "ResourceClaim": {"status": dict, **_below("spec", _CLAIM_SPEC)},
    "ResourceClaimTemplate": {"spec": dict, "spec.metadata": dict, **_below("spec.spec", _CLAIM_SPEC)},
    "ResourceClaimParameters": {
        "shareable": bool,
        **_below("generatedFrom", _REFERENCE),
        "driverRequests": list,
        "driverRequests[]": dict,
        "driverRequests[].driverName": str,
        "driverRequests[].vendorParameters": dict,
        "driverRequests[].requests": list,
        "driverRequests[].requests[]": dict,
        "driverRequests[].requests[].vendorParameters": dict,
        "driverRequests[].requests[].namedResources": dict,
        "driverRequests[].requests[].namedResources.selector": str,
    },
    "ResourceClassParameters": {
        **_below("generatedFrom", _REFERENCE),
        "vendorParameters": list,
        "vendorParameters[]": dict,
        "vendorParameters[].driverName": str,
        "vendorParameters[].parameters": dict,
        "filters": list,
        "filters[]": dict,
        "filters[].driverName": str,
        "filters[].namedResources": dict,
        "filters[].namedResources.selector": str,
    },
}


def wrong_types(document: dict[str, Any], kind: str) -> list[FieldError]:
    """Returns the fields with values of wrong types; absent ones and null are allowed."""
    return [
        FieldError(ErrorType.WRONG_TYPE, field, f"expected {_NAMES[expected]}, found {describe(value)}")
        for path, expected in _TYPES.get(kind, {}).items()
        for field, value in _at(document, "", path.replace("[]", ".[]").split("."))
        if value is not None and not isinstance(value, expected)
    ]


def _at(value: Any, field: str, steps: list[str]) -> Iterator[tuple[str, Any]]:
    if not steps:
        yield field, value
        return
    step, *rest = steps
    if step == "[]":
        for index, item in enumerate(sequence(value)):
            yield from _at(item, f"{field}[{index}]", rest)
    elif step in mapping(value):
        yield from _at(value[step], f"{field}.{step}" if field else step, rest)


@dataclass(frozen=True, slots=True)
class Note:
    field: str
    message: str


@dataclass(slots=True)
class Notes:
    """Collects the notes of a conversion: each names a field and says what became of it."""

    found: list[Note] = field(default_factory=list)

    def add(self, path: str, message: str) -> None:
        self.found.append(Note(path, message))

    def leftovers(self, content: dict[str, Any], known: Collection[str], path: str, where: str) -> None:
        """Adds a note for every unknown member."""
        for member, value in content.items():
            if member not in known:
                place = f"{path}.{member}" if path else member
                self.add(place, f"dropped: {where} has no such field; it held {shorten(value)}")


def shorten(value: Any, limit: int = 200) -> str:
    shown = render(value)
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."
