"""The plan for the pods of a DaemonSet: every node that it runs on has one, and no other node has any."""

from __future__ import annotations

from dataclasses import dataclass, field

from dray.api.objects import Object, is_true, key_of
from dray.api.pods import node_of, phase_of
from dray.controllers.daemon_sets.daemons import Daemons


@dataclass(slots=True)
class Plan:
    create: list[str] = field(default_factory=list)
    """Names of nodes."""
    delete: list[Object] = field(default_factory=list)
    ended: list[tuple[Object, str]] = field(default_factory=list)
    """Ended pods to delete, with their nodes; failed ones are deleted after a backoff."""


def plan(daemons: Daemons) -> Plan:
    found = Plan()
    for node, place in daemons.placements.items():
        if place.runs and not daemons.pods.get(node):
            found.create.append(node)
        elif place.stays:
            _keep_one(daemons, node, found)
        else:
            found.delete += daemons.staying(node)
    for node in daemons.pods.keys() - daemons.placements.keys():
        # Those that are bound the pod garbage collector deletes.
        found.delete += [pod for pod in daemons.staying(node) if not node_of(pod)]
    return found


def _keep_one(daemons: Daemons, node: str, found: Plan) -> None:
    running = []
    for pod in daemons.staying(node):
        if phase_of(pod) in ("Failed", "Succeeded"):
            found.ended.append((pod, node))
        else:
            running.append(pod)
    if not daemons.surge:
        found.delete += running[1:]
        return
    new = [pod for pod in running if daemons.is_new(pod)]
    old = [pod for pod in running if not daemons.is_new(pod)]
    found.delete += new[1:] + old[1:]
    if new and old and (not is_true(old[0], "Ready") or daemons.is_available(new[0])):
        found.delete.append(old[0])


def told(pod: Object, node: str) -> tuple[str, str, str]:
    """Returns the event about an ended pod: type, reason, message."""
    namespace, name = key_of(pod)
    if phase_of(pod) == "Failed":
        text = f"Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it"
        return "Warning", "FailedDaemonPod", text
    text = f"Found succeeded daemon pod {namespace}/{name} on node {node}, will try to delete it"
    return "Normal", "SucceededDaemonPod", text
