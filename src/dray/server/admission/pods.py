"""A pod with scheduling gates says from the start why nobody schedules it."""

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
