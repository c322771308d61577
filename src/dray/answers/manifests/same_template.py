"""Says whether a pod was made from a template, as far as a snapshot shows: by its claims, containers and placement.

Webhooks may have added containers, tolerations and volumes to the pod. So what the template says has to be in the pod,
and the pod may have more. Commands, environment variables and volumes are not compared.
"""

from __future__ import annotations

from typing import Final

from dray.api.objects import Object, mapping, mappings, spec_of

_EQUAL: Final = ("resourceClaims", "affinity", "topologySpreadConstraints")
_OF_CONTAINER: Final = ("image", "resources")


def has_template(pod: Object, template: Object) -> bool:
    """`template` has the defaults of a pod."""
    made, wanted = spec_of(pod), spec_of(template)
    if any((made.get(name) or None) != (wanted.get(name) or None) for name in _EQUAL):
        return False
    if wanted.get("priorityClassName") not in (None, made.get("priorityClassName")):
        return False
    if not mapping(wanted.get("nodeSelector")).items() <= mapping(made.get("nodeSelector")).items():
        return False
    return all(_has_containers(made, wanted, member) for member in ("containers", "initContainers"))


def _has_containers(made: Object, wanted: Object, member: str) -> bool:
    there = {each.get("name"): each for each in mappings(made.get(member))}
    return all(
        each.get("name") in there
        and all((there[each.get("name")].get(name) or None) == (each.get(name) or None) for name in _OF_CONTAINER)
        for each in mappings(wanted.get(member))
    )
