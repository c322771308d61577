"""`pods/eviction`: a deletion that a PodDisruptionBudget may refuse for now."""

from __future__ import annotations

from dray.api import label_selectors
from dray.api.intake import Place
from dray.api.objects import Object, condition_of, conditions_of, mapping, text
from dray.server import bodies, deletion, documents, status, updates
from dray.server.admission import CREATE, parts
from dray.server.calls import Call
from dray.server.parameters import write_options
from dray.server.part_kinds import EVICTION
from dray.server.requests import Answer, document
from dray.server.resources import key_prefix

_BUDGETS = key_prefix("policy", "poddisruptionbudgets")
_DONE = ("Succeeded", "Failed")
# Limit of evictions of a budget that wait for the controller to see their pods go.
_MOST_PENDING = 2000


async def create(call: Call) -> Answer:
    options = write_options(call.request, call.query, "CreateOptions")
    body = await bodies.read(call.context, call.request, strict=options.strict)
    body = await parts.admit(call.write(options, "create"), CREATE, body, EVICTION)
    if text(mapping(body.get("metadata")).get("name")) not in ("", call.path.name):
        raise status.bad_request("name in URL does not match name in Eviction object")
    given = mapping(body.get("deleteOptions"))
    wanted = deletion.delete_options(given, call.query)
    pod = await call.stored()
    dry_run = wanted.dry_run or options.dry_run
    if not _may_go_freely(pod):
        await _use_budget(call, pod, dry_run=dry_run)
    if not dry_run and not pod["metadata"].get("deletionTimestamp"):
        await updates.modify(call.context, call.resource, call.place, lambda now: _mark(now, call), dry_run=False)
    # Policies and webhooks were called for the eviction already.
    await deletion.delete(call.context, call.resource, call.place, wanted, call.request, admitted=True)
    return document(status.success(code=201), 201)


def _mark(pod: Object, call: Call) -> None:
    """Adds the condition DisruptionTarget, which shows that the pod did not fail by itself."""
    mark = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": call.context.now(),
    }
    pod["status"]["conditions"] = [
        *(condition for condition in conditions_of(pod) if condition["type"] != mark["type"]),
        mark,
    ]


def _may_go_freely(pod: Object) -> bool:
    return (
        pod["status"].get("phase") in (*_DONE, "Pending")
        or bool(pod["metadata"].get("deletionTimestamp"))
        or not pod["spec"].get("nodeName")
    )


async def _use_budget(call: Call, pod: Object, *, dry_run: bool) -> None:
    budgets = list(_budgets(call, pod))
    if not budgets:
        return
    if len(budgets) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise status.ApiError(500, "InternalError", message)
    (budget,) = budgets
    if not _is_ready(pod) and _spares_unhealthy(budget):
        return
    resource = call.context.registry.find("policy", "v1", "poddisruptionbudgets")
    assert resource is not None
    name = budget["metadata"]["name"]
    place = Place(call.path.namespace, name)
    await updates.modify(call.context, resource, place, lambda now: _take_one(now, pod, call), dry_run=dry_run)


def _is_ready(pod: Object) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())


def _spares_unhealthy(budget: Object) -> bool:
    """Returns True if an unready pod may be evicted: always if the budget says so, else if the budget is met."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    state = budget["status"]
    return bool(state["currentHealthy"] >= state["desiredHealthy"] > 0)


def _budgets(call: Call, pod: Object) -> list[Object]:
    labels = pod["metadata"].get("labels") or {}
    found = [documents.decode(r.value) for r in call.context.store.list(f"{_BUDGETS}{call.path.namespace}/").records]
    return [b for b in found if (s := b["spec"].get("selector")) is not None and label_selectors.from_object(s)(labels)]


def _take_one(budget: Object, pod: Object, call: Call) -> None:
    state, name = budget["status"], budget["metadata"]["name"]
    if state.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _not_now(f"The disruption budget {name} is still being processed by the server.", retry_after=10)
    pending = state.get("disruptedPods") or {}
    if len(pending) > _MOST_PENDING:
        told = "too many pending evictions not confirmed by PDB controller"
        cause = _cause(f"The disruption budget {name} does not allow evicting pods currently: {told}")
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise status.forbidden("policy", "poddisruptionbudget", name, why, [cause])
    if not state["disruptionsAllowed"]:
        # The time is unknown: clients that get a time retry by themselves.
        raise _not_now(_why_none(name, state), retry_after=0)
    state["disruptionsAllowed"] -= 1
    state["disruptedPods"] = {**pending, pod["metadata"]["name"]: call.context.now()}


def _why_none(name: str, state: Object) -> str:
    refused = condition_of({"status": state}, "DisruptionAllowed", "False") or {}
    why, told = refused.get("reason", ""), refused.get("message", "")
    if told and why == "SyncFailed":
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {told}"
    if state["currentHealthy"] <= state["desiredHealthy"]:
        needed, healthy = state["desiredHealthy"], state["currentHealthy"]
        return f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
    if told:
        return f"The disruption budget {name} does not allow evicting pods currently ({why}): {told}"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _not_now(why: str, *, retry_after: int) -> status.ApiError:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return status.too_many_requests(message, retry_after=retry_after, causes=[_cause(why)])


def _cause(message: str) -> status.Cause:
    return {"reason": "DisruptionBudget", "message": message}
