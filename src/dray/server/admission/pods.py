"""New pods: one with scheduling gates says from the start why nobody schedules it, and none makes up an overhead."""

from __future__ import annotations

from dray.server.admission.attributes import Attributes


def note_gates(attributes: Attributes) -> None:
    if attributes.kind != ("", "Pod") or not attributes.obj["spec"].get("schedulingGates"):
        return
    attributes.obj["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": attributes.context.now(),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
    ]


def check_overhead(attributes: Attributes) -> None:
    """What a pod takes besides its containers is told by its runtime class, not by its author."""
    if attributes.kind != ("", "Pod"):
        return
    spec = attributes.obj["spec"]
    if spec.get("overhead") and not spec.get("runtimeClassName"):
        raise attributes.forbid("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
