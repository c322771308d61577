"""The calls of the page about actions: which a viewer may take on a target, and taking one.

A question about rights is asked for a namespace that has objects of the kind, and never for a single name: so there
are as many reviews as there are namespaces, however many targets are looked at.
"""

from __future__ import annotations

from typing import Any, Final

from dray.client.discovery import ServedResource
from dray.web.actions import quotas, targets
from dray.web.actions.action import Action, Request
from dray.web.view import BadCall, Call

ACTIONS: Final = {each.name: each for each in (*targets.ACTIONS, *quotas.ACTIONS)}
READS: Final = ("clusterqueues", "kaiqueues")
"""What actions read beside the kinds of the view."""


async def offers(call: Call) -> Any:
    """The actions that the viewer may take on a target, with what each asks for."""
    target, namespace, name = call.text("target"), call.text("namespace", ""), call.text("name")
    made = {}
    for action in ACTIONS.values():
        if action.target == target and await _may(call, action, namespace) is not None:
            fields = action.fields(call, name)
            if fields is not None:
                made[action.name] = action.document(fields)
    return {"actions": made}


async def act(call: Call) -> Any:
    """Takes an action, or with `dryRun` tries it."""
    action = ACTIONS.get(call.text("action"))
    dry_run = call.body.get("dryRun", True)
    if action is None or not isinstance(dry_run, bool):
        raise BadCall("there is no such action; dryRun is true or false")
    namespace, name = call.text("namespace", ""), call.text("name")
    resource = await _may(call, action, namespace)
    if resource is None:
        raise BadCall(f"you may not {action.verb} {action.kind} here")
    try:
        result = await action.perform(Request(call, resource, namespace, name, dry_run))
    except ValueError as error:
        raise BadCall(f"this cannot be a name: {error}") from None
    return {**result.document(), "dryRun": dry_run}


async def _may(call: Call, action: Action, namespace: str) -> ServedResource | None:
    """The resource that the action changes, if the viewer may."""
    table = call.question.model.table(action.kind)
    resource = table.resource
    if resource is None or (resource.namespaced and table.namespaces[namespace] <= 0):
        return None
    namespace = namespace if resource.namespaced else ""
    return resource if await call.rights.may(call.identity, action.verb, resource, namespace) else None


CALLS: Final = {"offers": offers, "act": act}
