"""Changes of a scene: machines that are added, nodes that are drained, devices that fail, and quota.

A change is made from what a command line says, and raises `ChangeError` if the cluster has no such node, device or
queue. It returns a new scene and changes no object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dray.api.objects import Key, Object, controller_of, key_of, mapping, mappings, spec_of
from dray.api.pods import MIRROR_ANNOTATION, claims_used, extended_claim, is_terminal, node_of
from dray.api.quantity import Quantity, QuantityError
from dray.api.resource_claims import results_of
from dray.api.suggestions import suggestion
from dray.fleet.machine import Machine
from dray.fleet.templates import slices_of
from dray.planning.scene import Scene
from dray.scheduling.cluster.extended import IMPLICIT
from dray.scheduling.quota.kai import queue as kai_queue


class ChangeError(Exception):
    """A change that cannot be made: one line, with what to write instead."""


@dataclass(frozen=True, slots=True)
class Change:
    kind: str
    """The kind of change, for programs: AddMachines, Drain, WithoutDevice, SetQuota and so on."""
    text: str
    """The change as an instruction for people: `add 4 p5.48xlarge`."""
    apply: Callable[[Scene], Scene]
    machines: tuple[str, ...] = ()
    """The types of the machines that it adds."""
    smaller: Steps | None = None
    """Smaller changes that were skipped, because this one is tried first."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Changes of one kind that differ by an amount."""

    amounts: Sequence[int]
    """Sizes of the change, ascending."""
    make: Callable[[int], Change]

    def doubling(self) -> Iterator[Change]:
        """Yields the smallest change, then larger ones at distances that double; the last one is the largest."""
        last, distance = -1, 1
        while last < len(self.amounts) - 1:
            at = min(last + distance, len(self.amounts) - 1)
            skipped = self.amounts[last + 1 : at]
            yield replace(self.make(self.amounts[at]), smaller=Steps(skipped, self.make) if skipped else None)
            last, distance = at, 2 * distance


def add_machines(machines: Sequence[Machine]) -> Change:
    counts: dict[str, int] = {}
    for each in machines:
        counts[each.type.name] = counts.get(each.type.name, 0) + 1
    text = ", ".join(f"{count} {name}" for name, count in counts.items())

    def apply(scene: Scene) -> Scene:
        known = {key_of(each)[1] for each in scene.cluster.get("Node", ())}
        named = [replace(each, name=_unused(f"{each.name}-added", known)) for each in machines]
        nodes = [{**each.node(), "metadata": {**each.node()["metadata"], "uid": f"node/{each.name}"}} for each in named]
        slices = [found for each in named for found in slices_of(each)]
        return scene.with_cluster(
            Node=[*scene.cluster.get("Node", ()), *nodes],
            ResourceSlice=[*scene.cluster.get("ResourceSlice", ()), *slices],
        )

    return Change("AddMachines", f"add {text}", apply, tuple(each.type.name for each in machines))


def _unused(name: str, known: set[str]) -> str:
    number, made = 2, name
    while made in known:
        made, number = f"{name}-{number}", number + 1
    known.add(made)
    return made


def drain(node: str) -> Change:
    def apply(scene: Scene) -> Scene:
        nodes = list(scene.cluster.get("Node", ()))
        names = [key_of(each)[1] for each in nodes]
        if node not in names:
            raise ChangeError(f"node {node} not found; {suggestion(node, names)}")
        nodes = [_cordoned(each) if key_of(each)[1] == node else each for each in nodes]
        leaving = [each for each in scene.cluster.get("Pod", ()) if node_of(each) == node and not _stays(each)]
        return _evicting(scene.with_cluster(Node=nodes), leaving, f"node {node} is drained")

    return Change("Drain", f"drain node {node}", apply)


def _cordoned(node: Object) -> Object:
    return {**node, "spec": {**spec_of(node), "unschedulable": True}}


def _stays(pod: Object) -> bool:
    """Whether a drain leaves the pod where it is."""
    controller = controller_of(pod)
    static = MIRROR_ANNOTATION in (pod["metadata"].get("annotations") or ())
    return is_terminal(pod) or static or (controller is not None and controller.get("kind") == "DaemonSet")


def without(device: str) -> Change:
    """`device` is DRIVER/POOL/DEVICE, or POOL/DEVICE."""

    def apply(scene: Scene) -> Scene:
        slices = list(scene.cluster.get("ResourceSlice", ()))
        matching = {place for place in _places(slices) if "/".join(place) == device or "/".join(place[1:]) == device}
        if not matching:
            known = ["/".join(place[1:]) for place in _places(slices)]
            raise ChangeError(f"device {device} not found; {suggestion(device, known)}")
        drivers = sorted(place[0] for place in matching)
        if len(drivers) > 1:
            raise ChangeError(f"device {device} is one of {' and '.join(drivers)}; write {drivers[0]}/{device}")
        [place] = matching
        holding = {key_of(each) for each in scene.cluster.get("ResourceClaim", ()) if _holds(each, place)}
        users = [each for each in scene.cluster.get("Pod", ()) if not is_terminal(each) and _uses(each, holding)]
        left = [_without(each, place) for each in slices]
        return _evicting(scene.with_cluster(ResourceSlice=left), users, f"device {device} is gone")

    return Change("WithoutDevice", f"remove device {device}", apply)


_Place = tuple[str, str, str]


def _places(slices: Iterable[Object]) -> list[_Place]:
    return [
        (spec_of(each)["driver"], spec_of(each)["pool"]["name"], device["name"])
        for each in slices
        for device in mappings(spec_of(each).get("devices"))
    ]


def _holds(claim: Object, place: _Place) -> bool:
    return any((each["driver"], each["pool"], each["device"]) == place for each in results_of(claim))


def _uses(pod: Object, claims: set[Key]) -> bool:
    namespace = key_of(pod)[0]
    return any((namespace, name) in claims for name in (*(name for _, name in claims_used(pod)), extended_claim(pod)))


def _without(slice_: Object, place: _Place) -> Object:
    spec = spec_of(slice_)
    if (spec["driver"], spec["pool"]["name"]) != place[:2]:
        return slice_
    devices = [each for each in mappings(spec.get("devices")) if each["name"] != place[2]]
    return {**slice_, "spec": {**spec, "devices": devices}}


def _evicting(scene: Scene, pods: Iterable[Object], reason: str) -> Scene:
    return replace(scene, evicted={**scene.evicted, **{key_of(each): reason for each in pods}})


_QuotaEdit = Callable[[Object, str, str], Object]


def set_quota(queue: str, resource: str, amount: str, flavor: str = "") -> Change:
    """`amount` is the new quota, or `+N` for more than there is; `resource` may be the name of a DeviceClass.

    Without a flavor it is the quota of the first flavor that has the resource.
    """

    def apply(scene: Scene) -> Scene:
        kinds = ("ClusterQueue", kai_queue.KIND)
        names = [key_of(each)[1] for kind in kinds for each in scene.of(kind)]
        if queue not in names:
            raise ChangeError(f"queue {queue} not found; {suggestion(queue, names)}")
        changes: tuple[_QuotaEdit, ...] = (partial(_with_quota, flavor=flavor), _with_share)
        for kind, change in zip(kinds, changes, strict=True):
            for objects, put in ((scene.cluster, scene.with_cluster), (scene.wanted, scene.with_wanted)):
                given = objects.get(kind, ())
                if any(key_of(each)[1] == queue for each in given):
                    made = [change(each, resource, amount) if key_of(each)[1] == queue else each for each in given]
                    scene = put(**{kind: made})
        return scene

    of = f"flavor {flavor} in queue {queue}" if flavor else f"queue {queue}"
    more = f"raise quota of {of} by {amount[1:]} {resource}"
    return Change("SetQuota", more if amount.startswith("+") else f"set quota of {of} to {amount} {resource}", apply)


def _with_quota(queue: Object, resource: str, amount: str, flavor: str) -> Object:
    found = False
    groups = []
    for group in mappings(spec_of(queue).get("resourceGroups")):
        flavors = []
        for entry in mappings(group.get("flavors")):
            resources = []
            for each in mappings(entry.get("resources")):
                is_it = each.get("name") in (resource, IMPLICIT + resource) and not found
                is_it = is_it and flavor in ("", entry.get("name"))
                found = found or is_it
                resources.append({**each, "nominalQuota": _amount(each, amount)} if is_it else each)
            flavors.append({**entry, "resources": resources})
        groups.append({**group, "flavors": flavors})
    if not found:
        raise ChangeError(f"queue {key_of(queue)[1]} has no quota of {resource}; {_known(queue, resource)}")
    return {**queue, "spec": {**spec_of(queue), "resourceGroups": groups}}


def _with_share(queue: Object, resource: str, amount: str) -> Object:
    """Returns a queue of KAI with another quota; a limit below the quota is raised to it."""
    resources = mapping(spec_of(queue).get("resources"))
    if resource not in kai_queue.RESOURCES:
        raise ChangeError(f"{resource!r} has no quota in KAI; {suggestion(resource, kai_queue.RESOURCES)}")
    entry = mapping(resources.get(resource))
    number = Quantity.parse(_amount({"nominalQuota": entry.get("quota", 0)}, amount)).as_float()
    limit = entry.get("limit")
    is_below = isinstance(limit, (int, float)) and 0 <= limit < number
    made = {**resources, resource: {**entry, "quota": number, **({"limit": number} if is_below else {})}}
    return {**queue, "spec": {**spec_of(queue), "resources": made}}


def _known(queue: Object, resource: str) -> str:
    groups = mappings(spec_of(queue).get("resourceGroups"))
    flavors = [flavor for group in groups for flavor in mappings(group.get("flavors"))]
    names = [str(mapping(each).get("name")) for flavor in flavors for each in mappings(flavor.get("resources"))]
    return suggestion(resource, names)


def _amount(entry: Object, amount: str) -> str:
    try:
        number = Quantity.parse(amount.removeprefix("+"))
        if amount.startswith("+"):
            number = Quantity.parse(str(entry.get("nominalQuota", "0"))) + number
        if number.sign() < 0:
            raise QuantityError
    except QuantityError:
        raise ChangeError(f"{amount!r} is no amount; write 8, 500m, 64Gi, or +8 for more than there is") from None
    return str(number)
