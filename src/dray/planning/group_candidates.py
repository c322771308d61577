"""Changes of groups that may help: pods that need not be in one rack or another domain of a topology."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dray.api.objects import Key, Object, key_of, mapping, mappings, spec_of
from dray.planning.changes import Change
from dray.planning.playing import PlacedPod
from dray.planning.scene import Scene

_MEMBERS: Final = {"PodGroup": "schedulingConstraints", "PodGroup.scheduling.run.ai": "topologyConstraint"}
"""The member of a group's spec that says in which domain its pods have to be, by kind."""


def relaxed_groups(scene: Scene, waiting: Sequence[PlacedPod]) -> Iterator[Change]:
    """Yields groups of waiting pods without what they say about a topology."""
    groups = {(pod.group.namespace, pod.group.name) for pod in waiting if pod.group is not None}
    for kind, member in _MEMBERS.items():
        for group in scene.wanted.get(kind, ()):
            said = mapping(spec_of(group).get(member))
            if said and key_of(group) in groups:
                yield _dropped(kind, key_of(group), member, _title(said))


def _title(said: Object) -> str:
    keys = [str(each.get("key")) for each in mappings(said.get("topology"))]
    return ", ".join(keys) or str(said.get("requiredTopologyLevel") or said.get("topology") or "")


def _dropped(kind: str, key: Key, member: str, title: str) -> Change:
    def apply(scene: Scene) -> Scene:
        return scene.with_wanted(
            **{kind: [_without(each) if key_of(each) == key else each for each in scene.wanted[kind]]}
        )

    def _without(group: Object) -> Object:
        return {**group, "spec": {name: value for name, value in spec_of(group).items() if name != member}}

    return Change("DropTopology", f"drop {member} {title} of group {'/'.join(key)}", apply)
