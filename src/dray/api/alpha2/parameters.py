"""Parameters: what a claim or a class said in a vendor's kind, and where it stands among the documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dray.api.alpha2.types import Notes, shorten
from dray.api.objects import mapping, sequence, text, walk

_OBJECT_MEMBERS = frozenset({"apiVersion", "kind", "metadata"})
_NOT_CONTENT = _OBJECT_MEMBERS | {"spec", "status"}
_ACCESS = re.compile(
    r"""(?<![\w.])attributes\.(?P<type>bool|int|string|version|quantity)"""
    r"""(?:\[\s*["'](?P<quoted>[^"']+)["']\s*\]|\.(?P<bare>[A-Za-z_]\w*))"""
)
_MEMBERSHIP = re.compile(r"(?<![\w.])attributes\.(?P<type>bool|int|string|version|quantity)(?![\w.\[])")
_REMAINS = re.compile(r"(?<![\w.])attributes\.")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}\Z")


@dataclass(frozen=True, slots=True)
class ReferencedDocuments:
    """The documents that a claim or a class may refer to; `selected` if pods take over a claim's node selectors."""

    documents: Sequence[dict[str, Any]] = ()
    selected: bool = False

    def resource_class(self, name: str) -> dict[str, Any]:
        return next(self._named("ResourceClass", name), {})

    def driver_of(self, class_name: str) -> str:
        return driver_name(self.resource_class(class_name))

    def structured(self, kind: str, reference: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the parameters that a reference names, directly or as generated from the named object."""
        if reference.get("kind") == kind:
            return next(self._named(kind, text(reference.get("name"))), None)
        for document in self.documents:
            origin = mapping(document.get("generatedFrom"))
            if document.get("kind") == kind and all(
                origin.get(member) == reference.get(member) for member in ("kind", "name")
            ):
                return document
        return None

    def vendor(self, reference: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the vendor's object that a reference names."""
        return next(self._named(text(reference.get("kind")), text(reference.get("name"))), None)

    def _named(self, kind: str, name: str) -> Iterator[dict[str, Any]]:
        for document in self.documents:
            if document.get("kind") == kind and walk(document, "metadata").get("name") == name:
                yield document


@dataclass(slots=True)
class Wanted:
    """Parameters converted to v1: requests without class and name, and configuration."""

    requests: list[dict[str, Any]] = field(default_factory=list)
    # For which request (by index; None for all), which driver, and what.
    config: list[tuple[int | None, str, dict[str, Any]]] = field(default_factory=list)


def driver_name(resource_class: dict[str, Any]) -> str:
    """`driverName`, also where manifests in the wild put it."""
    return (
        text(resource_class.get("driverName"))
        or text(walk(resource_class, "spec").get("driverName"))
        or text(walk(resource_class, "structuredParameters").get("driverName"))
        or text(walk(resource_class, "structuredParameters", "generatedFrom").get("driverName"))
    )


def from_structured(parameters: dict[str, Any], path: str, notes: Notes) -> Wanted:
    """A ResourceClaimParameters: one request for each request of each driver."""
    wanted = Wanted()
    for group in map(mapping, sequence(parameters.get("driverRequests"))):
        driver = text(group.get("driverName"))
        notes.leftovers(group, ("driverName", "vendorParameters", "requests"), path, "a driver's parameters")
        if group.get("vendorParameters"):
            wanted.config.append((None, driver, mapping(group["vendorParameters"])))
        for request in map(mapping, sequence(group.get("requests"))):
            notes.leftovers(request, ("vendorParameters", "namedResources"), path, "a request of the parameters")
            expression = text(walk(request, "namedResources").get("selector"))
            if request.get("vendorParameters"):
                wanted.config.append((len(wanted.requests), driver, mapping(request["vendorParameters"])))
            wanted.requests.append(_with_selector(expression, driver, path, notes))
    if parameters.get("shareable") is not None:
        notes.add(path, "shareable is dropped: in v1 any claim may be used by several pods")
    return wanted


def from_vendor(parameters: dict[str, Any], driver: str, path: str, notes: Notes) -> Wanted:
    """Parameters in a vendor's kind, inline or an object of their own: a count, the rest for the driver."""
    kind = text(parameters.get("kind")) or "the parameters"
    nested = isinstance(parameters.get("spec"), dict)
    own = parameters["spec"] if nested else parameters
    content = {key: value for key, value in own.items() if nested or key not in _OBJECT_MEMBERS}
    beside = {key: value for key, value in parameters.items() if nested and key not in _NOT_CONTENT}
    request: dict[str, Any] = {}
    count = content.get("count")
    if type(count) is int and count > 0:
        request["count"] = content.pop("count")
    wish = content.pop("selector", None)
    if wish:
        what = "v1 selects devices with CEL, in exactly.selectors of the request"
        notes.add(f"{path}.selector", f"dropped: {what}; it held {shorten(wish)}")
    wanted = Wanted([request])
    # What is empty says nothing to a driver.
    rest = {key: value for key, value in content.items() if value not in ({}, [], None, "")}
    if rest or beside:
        head = {key: value for key, value in parameters.items() if key in ("apiVersion", "kind")}
        wanted.config.append((None, driver, {**head, **beside, **({"spec": rest} if nested else rest)}))
        what = f"carried over as opaque configuration for driver {driver}"
        notes.add(path, f"{what}: check that its v1 release understands {kind}")
    else:
        notes.add(path, f"{kind} is dropped: {'only its count' if request else 'nothing in it'} has a place in v1")
    return wanted


def opaque(driver: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"opaque": {"driver": driver, "parameters": parameters}}


def _with_selector(expression: str, driver: str, path: str, notes: Notes) -> dict[str, Any]:
    if not expression or expression.strip() == "true":
        return {}
    translated = translate(expression, driver)
    if translated is None:
        notes.add(path, f"selector dropped, write it anew in exactly.selectors: {expression}")
        return {}
    notes.add(path, f"selector rewritten, check the names of the attributes: {translated}")
    return {"selectors": [selector(translated)]}


def translate(expression: str, driver: str) -> str | None:
    """A selector of named resources for v1, or None where it uses what v1 does not have.

    `attributes.quantity["memory"]` looked into one map per type; `device.capacity["driver"].memory` and
    `device.attributes["driver"].model` look into two maps per driver. Slices of integers and strings have no
    counterpart.
    """
    names = [found["quoted"] or found["bare"] for found in _ACCESS.finditer(expression)]
    if not all(_IDENTIFIER.match(name) for name in names):
        return None
    translated = _ACCESS.sub(
        lambda found: f"{_domain(found['type'], driver)}.{found['quoted'] or found['bare']}", expression
    )
    translated = _MEMBERSHIP.sub(lambda found: _domain(found["type"], driver), translated)
    return None if _REMAINS.search(translated) else translated


def only_driver(driver: str) -> dict[str, dict[str, str]]:
    """The selector that stands for "devices of this driver"."""
    return selector(f'device.driver == "{driver}"')


def selector(expression: str) -> dict[str, dict[str, str]]:
    return {"cel": {"expression": expression}}


def _domain(type_name: str, driver: str) -> str:
    return f'device.{"capacity" if type_name == "quantity" else "attributes"}["{driver}"]'
