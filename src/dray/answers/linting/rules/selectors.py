"""Lint rules about CEL selectors that fail on devices of the given ResourceSlices.

A selector that reads an attribute which a device lacks is an error there, and nothing is allocated on the node of that
device. The selectors of a class come first; those of a request are asked about the devices that the class selects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from dray.answers.linting.findings import Finding, warning
from dray.answers.linting.rules.references import Given
from dray.answers.manifests.claim_specs import Spec, claim_spec, group_name, request_bodies
from dray.answers.manifests.reading import Manifest
from dray.api.catalogue import RESOURCE_GROUP
from dray.api.errors import render
from dray.api.objects import mapping, mappings, text, walk
from dray.cel import CelError, CompileError, Device, EvaluationError, compile_selector

Published = tuple[str, Device]
_HINT: Final = "read it as .?NAME.orValue(...), or guard it with has(...)"


def unguarded_attribute(manifest: Manifest, given: Given) -> Iterator[Finding]:
    devices = _devices(given)
    if not devices:
        return
    if group_name(manifest.document) == RESOURCE_GROUP and manifest.kind == "DeviceClass":
        yield from _faults(manifest, Spec("spec", walk(manifest.document, "spec")), devices)
    claim = claim_spec(manifest.document)
    for request in claim.items("devices", "requests") if claim else ():
        for body in request_bodies(request):
            device_class = given.find("DeviceClass", text(body.value.get("deviceClassName")))
            if device_class is not None:
                of_class = Spec("spec", walk(device_class.document, "spec"))
                yield from _faults(manifest, body, _selected(of_class, devices))


RULES: Final[tuple[Callable[[Manifest, Given], Iterator[Finding]], ...]] = (unguarded_attribute,)


def _faults(manifest: Manifest, body: Spec, devices: Sequence[Published]) -> Iterator[Finding]:
    for selector in body.items("selectors"):
        expression = text(walk(selector.value, "cel").get("expression"))
        left = []
        fault: tuple[str, str] | None = None
        for title, device in devices:
            answer = _answer(expression, device)
            if answer is True:
                left.append((title, device))
            elif isinstance(answer, str) and fault is None:
                fault = title, answer
        if fault is not None:
            message = f"fails on the device {fault[0]}: {fault[1]}; then nothing is allocated on its node"
            yield warning("unguarded-attribute", manifest, f"{selector.path}.cel.expression", message, _HINT)
        devices = left


def _selected(body: Spec, devices: Sequence[Published]) -> list[Published]:
    expressions = [text(walk(each.value, "cel").get("expression")) for each in body.items("selectors")]
    return [(title, device) for title, device in devices if all(_answer(each, device) is True for each in expressions)]


def _answer(expression: str, device: Device) -> bool | str:
    """Whether it selects the device; a text where it fails for want of an attribute or capacity."""
    try:
        return compile_selector(expression).evaluate(device).value is True
    except CompileError:
        return False
    except EvaluationError as error:
        return str(error) if "no such key" in str(error) else False
    except CelError:
        return False


def _devices(given: Given) -> list[Published]:
    """One of each kind: devices that publish the same are judged alike."""
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
