"""Field selectors: `metadata.name=a,spec.nodeName!=b`. Each kind has its own short list of fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dray.api.caches import remember
from dray.api.objects import Object
from dray.server import status
from dray.server.parameters import MAX_REQUIREMENTS

Field = Callable[[Object], str]


def _at(*path: str, absent: str = "") -> Field:
    def read(obj: Object) -> str:
        value: Any = obj
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, bool):
            return str(value).lower()
        return absent if value is None else str(value)

    return read


def _paths(*dotted: str) -> dict[str, Field]:
    return {path: _at(*path.split(".")) for path in dotted}


_EVERY = _paths("metadata.name", "metadata.namespace")
_EVERY_CLUSTERED = _paths("metadata.name")

_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _source(event: Object) -> str:
    return str((event.get("source") or {}).get("component") or event.get("reportingComponent") or "")


_FIELDS: dict[tuple[str, str], dict[str, Field]] = {
    ("resource.k8s.io", "ResourceSlice"): _paths("spec.nodeName", "spec.driver", "spec.pool.name"),
    ("", "Pod"): {
        **_paths(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ),
        "spec.hostNetwork": _at("spec", "hostNetwork", absent="false"),
    },
    ("", "Node"): {"spec.unschedulable": _at("spec", "unschedulable", absent="false")},
    ("", "Namespace"): _paths("status.phase"),
    ("", "Secret"): {"type": _at("type", absent="Opaque")},
    ("", "Event"): {
        **_paths(*(f"involvedObject.{member}" for member in _INVOLVED), "reason", "type", "reportingComponent"),
        "source": _source,
    },
    ("batch", "Job"): {"status.successful": _at("status", "succeeded", absent="0")},
}


def fields(group: str, kind: str, *, namespaced: bool) -> dict[str, Field]:
    return {**(_EVERY if namespaced else _EVERY_CLUSTERED), **_FIELDS.get((group, kind), {})}


@remember(512)
def parse(text: str) -> tuple[tuple[str, bool, str], ...]:
    """(field, equal, value) of each term; a backslash takes the meaning from `,`, `=` and itself."""
    terms = []
    parts = [part for part in _split(text) if part]
    if len(parts) > MAX_REQUIREMENTS:
        raise status.bad_request(f"a selector may have at most {MAX_REQUIREMENTS} requirements")
    for term in parts:
        name, equal, value = _operator(term)
        terms.append((name, equal, _plain(value, text)))
    return tuple(terms)


def pinned(field_selector: str, field: str) -> str:
    """The one value that the field of every selected object has; empty where the selector leaves it open."""
    if not field_selector:
        return ""
    return next((value for name, equal, value in parse(field_selector) if equal and name == field), "")


def _split(text: str) -> list[str]:
    parts, part, escaped = [], "", False
    for char in text:
        if char == "," and not escaped:
            parts.append(part)
            part = ""
            continue
        escaped = char == "\\" and not escaped
        part += char
    return [*parts, part]


def _operator(term: str) -> tuple[str, bool, str]:
    for index, char in enumerate(term):
        if term.startswith("!=", index):
            return term[:index].strip(), False, term[index + 2 :]
        if term.startswith("==", index):
            return term[:index].strip(), True, term[index + 2 :]
        if char == "=":
            return term[:index].strip(), True, term[index + 1 :]
    raise status.bad_request(f"invalid selector: '{term}'; can't understand '{term}'")


def _plain(value: str, text: str) -> str:
    result, escaped = "", False
    for char in value:
        if escaped:
            if char not in "\\,=":
                raise status.bad_request(f"invalid field selector {text!r}: invalid escape sequence")
            result, escaped = result + char, False
        elif char == "\\":
            escaped = True
        elif char in ",=":
            raise status.bad_request(f"invalid field selector {text!r}: unescaped {char!r}")
        else:
            result += char
    if escaped:
        raise status.bad_request(f"invalid field selector {text!r}: invalid escape sequence")
    return result
