"""Admission of new pods.

One with scheduling gates says from the start why nobody schedules it, none makes up an overhead, and the service
account must exist. The account `default` is what every pod has that names none; where nobody made one, a pod runs
without its token.
"""

from __future__ import annotations

from dray.server.admission.attributes import Attributes
from dray.server.resources import key_prefix

_ACCOUNTS = key_prefix("", "serviceaccounts")


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


def require_service_account(attributes: Attributes) -> None:
    if attributes.kind != ("", "Pod"):
        return
    name = attributes.obj["spec"]["serviceAccountName"]
    if name == "default" or attributes.context.store.get(f"{_ACCOUNTS}{attributes.namespace}/{name}"):
        return
    account = f"{attributes.namespace}/{name}"
    raise attributes.forbid(f'error looking up service account {account}: serviceaccount "{name}" not found')
