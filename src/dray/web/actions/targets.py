"""The actions on devices, nodes, pods and claims."""

from __future__ import annotations

from typing import Final

from dray.allocation.device_states import device_states
from dray.allocation.taints import rule_applies
from dray.api.objects import Object, key_of, mapping, metadata_of, spec_of, uid_of
from dray.api.pods import claims_used, node_of
from dray.web.actions.action import Action, Request, Result, choice, entry
from dray.web.view import BadCall, Call, Question

EFFECTS: Final = ["NoSchedule", "NoExecute"]
_KEY: Final = "dray.dev/maintenance"


def place_of(name: str) -> tuple[str, str, str]:
    """Driver, pool and device; raises BadCall."""
    driver, _, rest = name.partition("/")
    # Names of pools may have slashes.
    pool, _, device = rest.rpartition("/")
    if not (driver and pool and device):
        raise BadCall("a device is named DRIVER/POOL/DEVICE")
    return driver, pool, device


def rules_of(question: Question, name: str) -> list[Object]:
    """The DeviceTaintRules that taint a device and that the viewer may see."""
    place = place_of(name)
    return [rule for rule in question.objects("taintrules") if rule_applies(rule, *place)]


async def taint_device(request: Request) -> Result:
    driver, pool, device = place_of(request.name)
    effect, key = request.field("effect", EFFECTS[0]), request.field("key", _KEY)
    taint = {"key": key, "effect": effect, **({"value": value} if (value := request.field("value")) else {})}
    body = {
        "apiVersion": request.resource.api_version,
        "kind": request.resource.kind,
        "metadata": {"generateName": "page-"},
        "spec": {"deviceSelector": {"driver": driver, "pool": pool, "device": device}, "taint": taint},
    }
    made = await request.call.client.create(request.resource, body, options=request.writing)
    notes = _users(request.call.question, (driver, pool, device), effect)
    done = "would be created" if request.dry_run else f"{metadata_of(made).get('name')} was created"
    return Result(f"DeviceTaintRule {done}: {key}:{effect} on {device} of {pool}", notes)


def _users(question: Question, place: tuple[str, str, str], effect: str) -> list[str]:
    states = device_states(*(question.objects(kind) for kind in ("slices", "claims", "pods")))
    holders = next((each.holders for each in states if each.place == place), ())
    if not holders:
        return ["As far as you may see, no claim holds the device."]
    pods = sorted({f"{each.claim.partition('/')[0]}/{pod}" for each in holders for pod in each.pods})
    names = ", ".join(pods) or "no pod"
    if effect == "NoExecute":
        return [f"Pods that use it now are evicted, unless they tolerate the taint: {names}."]
    return [f"Pods that use it now keep it: {names}."]


def _taint_fields(call: Call, name: str) -> list[Object]:
    return [choice("effect", "Effect", EFFECTS), entry("key", "Key", _KEY), entry("value", "Value")]


async def release_device(request: Request) -> Result:
    rule = request.field("rule")
    found = next((each for each in rules_of(request.call.question, request.name) if key_of(each)[1] == rule), None)
    if found is None:
        raise BadCall(f"no DeviceTaintRule {rule[:80]!r} taints this device; its driver may: such taints stay")
    uid = await request.delete(rule)
    selector = mapping(spec_of(found).get("deviceSelector"))
    alone = all(selector.get(part) for part in ("driver", "pool", "device"))
    notes = [] if alone else ["The rule taints other devices as well: they are released too."]
    done = "would be deleted" if request.dry_run else "was deleted"
    return Result(f"DeviceTaintRule {rule} {done}", notes, uid or uid_of(found))


def _release_fields(call: Call, name: str) -> list[Object] | None:
    rules = [key_of(rule)[1] for rule in rules_of(call.question, name)]
    return [choice("rule", "Taint rule", rules)] if rules else None


async def cordon(request: Request) -> Result:
    return await _cordon(request, unschedulable=True)


async def uncordon(request: Request) -> Result:
    return await _cordon(request, unschedulable=False)


async def _cordon(request: Request, *, unschedulable: bool) -> Result:
    # null takes the member away.
    body = {"spec": {"unschedulable": True if unschedulable else None}}
    client = request.call.client
    made = await client.patch(request.resource, request.name, body, options=request.writing)
    pods = [each for each in request.call.question.objects("pods") if node_of(each) == request.name]
    takes = "would take" if request.dry_run else "takes"
    text = f"Node {request.name} {takes} {'no new pods' if unschedulable else 'new pods'}"
    stay = f"Pods on it stay: {len(pods)} that you may see."
    return Result(text, [stay] if unschedulable else [], uid_of(made))


def _is_cordoned(call: Call, name: str) -> bool:
    node = call.question.get("nodes", name)
    return node is not None and bool(spec_of(node).get("unschedulable"))


async def delete_pod(request: Request) -> Result:
    uid = await request.delete(request.name)
    done = "would be deleted" if request.dry_run else "is being deleted"
    pod = request.call.question.get("pods", request.name, namespace=request.namespace)
    claims = sorted(name for _, name in claims_used(pod)) if pod is not None else []
    notes = [f"Its claims lose this pod: {', '.join(claims)}."] if claims else []
    return Result(f"Pod {request.namespace}/{request.name} {done}", notes, uid)


async def delete_claim(request: Request) -> Result:
    uid = await request.delete(request.name)
    done = "would be deleted" if request.dry_run else "is being deleted"
    claim = request.call.question.get("claims", request.name, namespace=request.namespace)
    users = [str(each.get("name")) for each in mapping((claim or {}).get("status")).get("reservedFor") or ()]
    notes = [f"It stays until these have ended: {', '.join(users)}."] if users else []
    return Result(f"Claim {request.namespace}/{request.name} {done}", notes, uid)


ACTIONS: Final = (
    Action("taint", "device", "Taint device…", "create", "taintrules", taint_device, _taint_fields),
    Action("release", "device", "Release from taint…", "delete", "taintrules", release_device, _release_fields),
    Action("cordon", "node", "Cordon node…", "patch", "nodes", cordon, lambda c, n: None if _is_cordoned(c, n) else []),
    Action(
        "uncordon",
        "node",
        "Uncordon node…",
        "patch",
        "nodes",
        uncordon,
        lambda c, n: [] if _is_cordoned(c, n) else None,
    ),
    Action("delete-pod", "pod", "Delete pod…", "delete", "pods", delete_pod, danger=True),
    Action("delete-claim", "claim", "Delete claim…", "delete", "claims", delete_claim, danger=True),
)
