"""Changes of manifests that may help: no constraint, no selector, another class, fewer devices, smaller shares."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any, Final

from dray.api.objects import Key, Object, key_of, mapping, mappings, spec_of
from dray.api.pods import claim_entries
from dray.planning.changes import Change, Steps
from dray.planning.daemons import KIND as DAEMON_SET
from dray.planning.playing import PlacedPod
from dray.planning.scene import Scene

Edit = Callable[[Object], Object]
"""Returns a changed copy of `spec.devices` of a claim."""
_TEMPLATE: Final = "ResourceClaimTemplate"
_CLAIM: Final = "ResourceClaim"
_HARD: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_REPELLING: Final = ("NoSchedule", "NoExecute")
_FEWEST_TRIES: Final = 8
_DRIVER: Final = re.compile(r"""device\.driver\s*==\s*['"]([^'"]+)['"]""")


_AMOUNT: Final = re.compile(r"(\d{1,15})([A-Za-z]*)")
_SMALLER_UNITS: Final = {"Ti": "Gi", "Gi": "Mi", "Mi": "Ki"}
_Source = tuple[str, Key]
"""The kind and the key of a claim or of the template that it is made from."""
_Place = tuple[Any, ...]


def relaxed_claims(scene: Scene, waiting: Sequence[PlacedPod]) -> Iterator[Change]:
    """Yields claims of waiting pods without one constraint or selector."""
    for source in _sources(scene, waiting):
        devices, title = _devices(scene, source), _title(source)
        for number, constraint in enumerate(mappings(devices.get("constraints"))):
            what = constraint.get("matchAttribute") or constraint.get("distinctAttribute") or number
            yield _edited(
                "DropConstraint", f"drop constraint {what} of {title}", source, _without("constraints", number)
            )
        for at, body in _bodies(devices):
            for number, selector in enumerate(mappings(body.get("selectors"))):
                text = f"drop selector {_expression(selector)!r} of {title}"
                yield _edited("DropSelector", text, source, _at(at, _without("selectors", number)))


def other_classes(scene: Scene, waiting: Sequence[PlacedPod]) -> Iterator[Change]:
    """Yields claims of waiting pods for another class of the same driver; for one that is not there, a similar one."""
    drivers = {key_of(each)[1]: _drivers(each) for each in scene.of("DeviceClass")}
    for source in _sources(scene, waiting):
        for at, body in _bodies(_devices(scene, source)):
            used = str(body.get("deviceClassName"))
            near = get_close_matches(used, drivers) if used not in drivers else ()
            for name in [each for each in drivers if each != used and drivers[each] & drivers.get(used, set())] or near:
                text = f"request class {name} instead of {used} in {_title(source)}"
                yield _edited("ChangeClass", text, source, _at(at, _setting("deviceClassName", name)))


def _drivers(device_class: Object) -> set[str]:
    """Returns the drivers that the selectors of a class compare with."""
    selectors = mappings(spec_of(device_class).get("selectors"))
    return {found for each in selectors for found in _DRIVER.findall(_expression(each))}


def fewer_devices(scene: Scene, waiting: Sequence[PlacedPod]) -> Iterator[Change]:
    for source in _sources(scene, waiting):
        for at, body in _bodies(_devices(scene, source)):
            if isinstance(count := body.get("count", 1), int):
                yield from Steps(range(count - 1, 0, -1), partial(_with_count, source, at, body)).doubling()


def _with_count(source: _Source, at: _Place, body: Object, count: int) -> Change:
    text = f"request {count} instead of {body['count']} {body.get('deviceClassName')} in {_title(source)}"
    return _edited("FewerDevices", text, source, _at(at, _setting("count", count)))


def less_capacity(scene: Scene, waiting: Sequence[PlacedPod]) -> Iterator[Change]:
    """Yields claims of waiting pods for smaller shares of devices."""
    for source in _sources(scene, waiting):
        for at, body in _bodies(_devices(scene, source)):
            for name, amount in mapping(mapping(body.get("capacity")).get("requests")).items():
                number, unit = _number_and_unit(str(amount))
                make = partial(_with_capacity, source, at, (name, str(amount), unit))
                yield from Steps(range(number - 1, 0, -1), make).doubling()


def _number_and_unit(amount: str) -> tuple[int, str]:
    """Splits an amount; one of a binary unit becomes many of the next smaller one. (0, "") if it is no whole number."""
    found = _AMOUNT.fullmatch(amount)
    if found is None:
        return 0, ""
    number, unit = int(found[1]), found[2]
    if number == 1 and unit in _SMALLER_UNITS:
        return 1024, _SMALLER_UNITS[unit]
    return number, unit


def _with_capacity(source: _Source, at: _Place, asked: tuple[str, str, str], number: int) -> Change:
    name, amount, unit = asked
    text = f"request {number}{unit} instead of {amount} {name} in {_title(source)}"

    def edit(body: Object) -> Object:
        capacity = mapping(body.get("capacity"))
        requests = {**mapping(capacity.get("requests")), name: f"{number}{unit}"}
        return {**body, "capacity": {**capacity, "requests": requests}}

    return _edited("LessCapacity", text, source, _at(at, edit))


def relaxed_pods(scene: Scene, waiting: Sequence[PlacedPod]) -> Iterator[Change]:
    """Yields pods without one part of what they say about nodes, or with a toleration."""
    specs = [spec_of(pod.document) for pod in waiting]
    for name, value in dict.fromkeys(item for spec in specs for item in mapping(spec.get("nodeSelector")).items()):
        yield _pods("DropNodeSelector", f"drop nodeSelector {name}={value}", _without_label(name))
    for member, kind in (("nodeAffinity", "node"), ("podAffinity", "pod"), ("podAntiAffinity", "pod anti-")):
        if any(_HARD in mapping(mapping(spec.get("affinity")).get(member)) for spec in specs):
            yield _pods("DropAffinity", f"drop required {kind} affinity", _without_affinity(member))
    if any(spec.get("topologySpreadConstraints") for spec in specs):
        yield _pods("DropSpread", "drop topologySpreadConstraints", _without_member("topologySpreadConstraints"))
    taints = Counter(
        (each.get("key"), each.get("value", ""), each.get("effect"))
        for node in scene.of("Node")
        for each in mappings(spec_of(node).get("taints"))
        if each.get("effect") in _REPELLING
    )
    for (key, value, effect), _ in taints.most_common(_FEWEST_TRIES):
        toleration = {"key": key, "operator": "Equal", "value": value, "effect": effect}
        yield _pods(
            "AddToleration", f"tolerate taint {key}{f'={value}' if value else ''}:{effect}", _tolerating(toleration)
        )


# Claims


def _sources(scene: Scene, waiting: Sequence[PlacedPod]) -> list[_Source]:
    found: dict[_Source, None] = {}
    for pod in waiting:
        for entry in claim_entries(pod.document):
            template, claim = entry.get("resourceClaimTemplateName"), entry.get("resourceClaimName")
            found[(_TEMPLATE, (pod.key[0], template)) if template else (_CLAIM, (pod.key[0], str(claim)))] = None
    known = {(kind, key_of(each)) for kind in (_TEMPLATE, _CLAIM) for each in scene.of(kind)}
    return [each for each in found if each in known]


def _title(source: _Source) -> str:
    return f"{'template' if source[0] == _TEMPLATE else 'claim'} {'/'.join(source[1])}"


def _devices(scene: Scene, source: _Source) -> Object:
    document = next(each for each in scene.of(source[0]) if key_of(each) == source[1])
    spec = spec_of(document)
    return mapping((mapping(spec.get("spec")) if source[0] == _TEMPLATE else spec).get("devices"))


def _bodies(devices: Object) -> Iterator[tuple[_Place, Object]]:
    """Yields each place where a request says what it wants, with what it says."""
    for number, request in enumerate(mappings(devices.get("requests"))):
        if "exactly" in request:
            yield ("requests", number, "exactly"), mapping(request["exactly"])
        for index, each in enumerate(mappings(request.get("firstAvailable"))):
            yield ("requests", number, "firstAvailable", index), each


def _edited(kind: str, text: str, source: _Source, edit: Edit) -> Change:
    def apply(scene: Scene) -> Scene:
        return _with_devices(scene, source, edit(_devices(scene, source)))

    return Change(kind, text, apply)


def _with_devices(scene: Scene, source: _Source, devices: Object) -> Scene:
    kind, key = source
    document = next(each for each in scene.of(kind) if key_of(each) == key)
    spec = spec_of(document)
    made = (
        {**spec, "spec": {**mapping(spec.get("spec")), "devices": devices}}
        if kind == _TEMPLATE
        else {**spec, "devices": devices}
    )
    others = [each for each in scene.wanted.get(kind, ()) if key_of(each) != key]
    return replace(scene, wanted={**scene.wanted, kind: [*others, {**document, "spec": made}]})


def _at(place: _Place, edit: Edit) -> Edit:
    def apply(value: Any, rest: _Place) -> Any:
        if not rest:
            return edit(value)
        if isinstance(value, list):
            return [apply(each, rest[1:]) if number == rest[0] else each for number, each in enumerate(value)]
        return {**value, rest[0]: apply(value[rest[0]], rest[1:])}

    return lambda devices: apply(devices, place)


def _without(member: str, number: int) -> Edit:
    def edit(value: Object) -> Object:
        left = [each for at, each in enumerate(value[member]) if at != number]
        kept = {name: each for name, each in value.items() if name != member}
        return {**kept, member: left} if left else kept

    return edit


def _setting(member: str, value: Any) -> Edit:
    return lambda body: {**body, member: value}


def _expression(selector: Object) -> str:
    text = str(mapping(selector.get("cel")).get("expression", ""))
    return " ".join(text.split())


# Pods


def _pods(kind: str, text: str, edit: Callable[[Object], Object]) -> Change:
    """`edit` returns a changed copy of the spec of a pod."""

    def apply(scene: Scene) -> Scene:
        pods = [{**each, "spec": edit(spec_of(each))} for each in scene.wanted.get("Pod", ())]
        daemons = [_with_template(each, edit) for each in scene.wanted.get(DAEMON_SET, ())]
        return scene.with_wanted(Pod=pods, **({DAEMON_SET: daemons} if daemons else {}))

    return Change(kind, text, apply)


def _with_template(daemon_set: Object, edit: Callable[[Object], Object]) -> Object:
    spec = spec_of(daemon_set)
    template = mapping(spec.get("template"))
    return {**daemon_set, "spec": {**spec, "template": {**template, "spec": edit(spec_of(template))}}}


def _without_label(name: str) -> Callable[[Object], Object]:
    def edit(spec: Object) -> Object:
        labels = mapping(spec.get("nodeSelector"))
        return {**spec, "nodeSelector": {each: value for each, value in labels.items() if each != name}}

    return edit


def _without_affinity(member: str) -> Callable[[Object], Object]:
    def edit(spec: Object) -> Object:
        affinity = mapping(spec.get("affinity"))
        soft = {name: value for name, value in mapping(affinity.get(member)).items() if name != _HARD}
        return {**spec, "affinity": {**affinity, member: soft}} if member in affinity else spec

    return edit


def _without_member(member: str) -> Callable[[Object], Object]:
    return lambda spec: {name: value for name, value in spec.items() if name != member}


def _tolerating(toleration: Object) -> Callable[[Object], Object]:
    return lambda spec: {**spec, "tolerations": [*mappings(spec.get("tolerations")), toleration]}
