"""From picks to AllocationResults: devices, configuration and node selector, in the order of Kubernetes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dray.allocation import node_selectors
from dray.allocation.node_selectors import NodeSelectorError
from dray.allocation.picks import Pick
from dray.allocation.requests import Task
from dray.allocation.views import View
from dray.allocation.work import AllocationError
from dray.api.objects import Object, spec_of

ShareIds = Callable[[Object, Object], str]
"""Gives the id of a share, from the claim and the result it is for."""


def derived_share_id(claim: Object, result: Object) -> str:
    """A UUID that follows from the claim and the device, so that the same input gives the same output."""
    from hashlib import sha256

    metadata = claim["metadata"]
    owner = (metadata.get("uid") or "", metadata.get("namespace") or "", metadata.get("name") or "")
    parts = (*owner, result["request"], result["driver"], result["pool"], result["device"])
    digits = sha256("\0".join(parts).encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"


def assemble(task: Task, picks: Sequence[Pick], share_ids: ShareIds) -> list[Object]:
    """Builds one AllocationResult for each claim. Raises AllocationError."""
    by_claim: list[list[Pick]] = [[] for _ in task.claims]
    for pick in picks:
        by_claim[pick.choice.claim].append(pick)
    return [_allocation(task, claim, own, share_ids) for claim, own in zip(task.claims, by_claim, strict=True)]


def _allocation(task: Task, claim: Object, picks: Sequence[Pick], share_ids: ShareIds) -> Object:
    devices: Object = {}
    if picks:
        devices["results"] = [_result(task.view, claim, pick, share_ids) for pick in picks]
    config = _config(claim, picks)
    if config:
        devices["config"] = config
    allocation: Object = {"devices": devices}
    try:
        selector = _node_selector(task.view, picks)
    except NodeSelectorError as error:
        raise AllocationError(str(error)) from None
    if selector is not None:
        allocation["nodeSelector"] = selector
    return allocation


def _result(view: View, claim: Object, pick: Pick, share_ids: ShareIds) -> Object:
    request, device = pick.request, view.devices[pick.rank]
    result: Object = {"request": request.name, "driver": device.driver, "pool": device.pool, "device": device.name}
    if request.admin:
        result["adminAccess"] = True
    if request.tolerations:
        result["tolerations"] = request.tolerations
    for member in ("bindingConditions", "bindingFailureConditions"):
        if device.spec.get(member):
            result[member] = device.spec[member]
    if device.shareable and view.gates["DRAConsumableCapacity"]:
        result["shareID"] = share_ids(claim, result)
        amounts = request.amounts.get(pick.rank)
        if amounts:
            result["consumedCapacity"] = {name: str(amount) for name, amount in amounts.items()}
    skipped = view.homes[pick.rank].skip_node_operations
    if skipped:
        result["skipNodeOperations"] = list(skipped)
    return result


def _config(claim: Object, picks: Sequence[Pick]) -> list[Object]:
    """Returns the configuration: once for each class, then the claim's; an entry for all requests names none."""
    chosen = {pick.choice.spec["name"]: pick.request for pick in picks}
    entries: list[Object] = []
    of_class: dict[str, list[Object]] = {}
    for request in chosen.values():
        name = request.device_class["metadata"]["name"]
        if name in of_class:
            for entry in of_class[name]:
                entry["requests"].append(request.name)
            continue
        configs = spec_of(request.device_class).get("config") or ()
        of_class[name] = [{"source": "FromClass", "requests": [request.name], **config} for config in configs]
        entries += of_class[name]
    names = {*chosen, *(request.name for request in chosen.values())}
    for config in claim["spec"].get("devices", {}).get("config") or ():
        wanted = config.get("requests") or ()
        if not wanted or any(name in names for name in wanted):
            entries.append({**config, "source": "FromClaim", "requests": list(wanted)})
    for entry in entries:
        if all(parent in entry["requests"] or request.name in entry["requests"] for parent, request in chosen.items()):
            entry["requests"] = []
        if not entry["requests"]:
            del entry["requests"]
    return entries


def _node_selector(view: View, picks: Iterable[Pick]) -> Object | None:
    selectors = []
    for pick in picks:
        device, home = view.devices[pick.rank], view.homes[pick.rank]
        per_device = bool(home.per_device)
        node_name = device.spec.get("nodeName") if per_device else home.node_name
        if node_name or device.spec.get("bindsToNode"):
            return node_selectors.only(view.node)
        selector = device.spec.get("nodeSelector") if per_device else home.node_selector
        if selector is not None:
            selectors.append(selector)
    return node_selectors.merged(selectors)
