"""Lint rule about CEL selectors that fail on devices of the given ResourceSlices.

A selector that reads an attribute which a device does not have fails, and nothing is allocated on the node of that
device. The selectors of a class are evaluated first, and those of a request on the devices that the class selects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from dray.answers.linting.findings import Finding, warning
from dray.answers.linting.rules.references import Given
from dray.answers.manifests.claim_specs import Spec, cel_expressions, claim_spec, class_spec, request_bodies
from dray.answers.manifests.reading import Manifest
from dray.api.errors import render
from dray.api.objects import mapping, mappings, text, walk
from dray.cel import CelError, CompileError, Device, EvaluationError, compile_selector

Published = tuple[str, Device]
"""A device in a slice, and its pool and name."""
_HINT: Final = "read it as .?NAME.orValue(...), or guard it with has(...)"


def unguarded_attribute(manifest: Manifest, given: Given) -> Iterator[Finding]:
    devices = _devices(given)
    if not devices:
        return
    if (own_spec := class_spec(manifest.document)) is not None:
        yield from _failures(manifest, own_spec, devices)
    claim = claim_spec(manifest.document)
    for request in claim.items("devices", "requests") if claim else ():
        for body in request_bodies(request):
            device_class = given.find("DeviceClass", text(body.value.get("deviceClassName")))
            of_class = class_spec(device_class.document) if device_class is not None else None
            if of_class is not None:
                yield from _failures(manifest, body, _selected(of_class, devices))


RULES: Final[tuple[Callable[[Manifest, Given], Iterator[Finding]], ...]] = (unguarded_attribute,)


def _failures(manifest: Manifest, body: Spec, devices: Sequence[Published]) -> Iterator[Finding]:
    for path, expression in cel_expressions(body):
        selected = []
        failure: tuple[str, str] | None = None
        for title, device in devices:
            result = _evaluate(expression, device)
            if result is True:
                selected.append((title, device))
            elif isinstance(result, str) and failure is None:
                failure = title, result
        if failure is not None:
            message = f"fails on the device {failure[0]}: {failure[1]}; then nothing is allocated on its node"
            yield warning("unguarded-attribute", manifest, path, message, _HINT)
        devices = selected


def _selected(body: Spec, devices: Sequence[Published]) -> list[Published]:
    """Returns the devices that all selectors of a class select."""
    for _, expression in cel_expressions(body):
        devices = [(title, device) for title, device in devices if _evaluate(expression, device) is True]
    return list(devices)


def _evaluate(expression: str, device: Device) -> bool | str:
    """Returns whether the selector selects the device, or a message if the device lacks what the selector reads."""
    try:
        return compile_selector(expression).evaluate(device).value is True
    except CompileError:
        return False
    except EvaluationError as error:
        return str(error) if "no such key" in str(error) else False
    except CelError:
        return False


def _devices(given: Given) -> list[Published]:
    """Returns one of several devices with the same driver, attributes and capacity."""
    known: list[Published] | None = given.memo.get("devices")
    if known is None:
        kinds: dict[str, Published] = {}
        for manifest in given.of("ResourceSlice"):
            spec = walk(manifest.document, "spec")
            driver, pool = text(spec.get("driver")), text(walk(spec, "pool").get("name"))
            for entry in mappings(spec.get("devices")):
                body = mapping(entry.get("basic")) or entry
                kind = render([driver, body.get("attributes"), body.get("capacity")])
                kinds.setdefault(kind, (f"{pool}/{text(entry.get('name'))}", Device(driver, body)))
        known = given.memo["devices"] = list(kinds.values())
    return known
