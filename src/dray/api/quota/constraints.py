"""Quota constraints: what every container must state where a quota limits cpu or memory.

Kubernetes asks this of cpu and memory only, and not of a pod that states resources as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dray.api.objects import Object, mapping

# The names of quotas that need a value in every container, with the member that holds it.
_STATED: Final = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "requests.cpu": ("requests", "cpu"),
    "requests.memory": ("requests", "memory"),
    "limits.cpu": ("limits", "cpu"),
    "limits.memory": ("limits", "memory"),
}


def missing(pod: Object, names: Iterable[str]) -> str:
    """What is not stated, by container; empty if nothing is missing."""
    spec = pod["spec"]
    if _states_as_a_whole(mapping(spec.get("resources"))):
        return ""
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    found = []
    for name in sorted(_STATED.keys() & set(names)):
        member, resource = _STATED[name]
        without = {
            container["name"] for container in containers if resource not in mapping(container["resources"].get(member))
        }
        if without:
            found.append(f"{name} for: {','.join(sorted(without))}")
    return "; ".join(found)


def _states_as_a_whole(resources: Object) -> bool:
    return any(
        name in ("cpu", "memory") or name.startswith("hugepages-")
        for member in ("requests", "limits")
        for name in resources.get(member) or ()
    )
