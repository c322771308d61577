"""Devices and claims: search, selectors and what they match, how many can be had, and the timeline of a claim.

The stream has the devices, or with `show=claims` the claims, that the words of `q` find, and the totals of all. It
sends at most so many rows. `open` names the row whose details are shown. The call `match` answers for a class and a
selector; it runs in a thread, two at a time and one of a viewer, with a bounded amount of work.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dray.allocation import Inventory, Work
from dray.allocation.device_states import DeviceState, device_states
from dray.allocation.taints import rule_applies
from dray.api.objects import Object, key_of, mapping, metadata_of, spec_of
from dray.api.resource_claims import allocation_of, alternatives_of, requests_of, reserved_for, results_of
from dray.cel import MAX_LENGTH
from dray.web.actions import calls as actions
from dray.web.devices.layouts import kind_of
from dray.web.search import matching, room, rows, timelines
from dray.web.turns import Turns
from dray.web.view import BadCall, Call, Question, View

_MOST_ROWS: Final = 1000
_ORDER: Final = ("gpu", "tpu", "other", "part", "nic", "cpu")
"""The order of the kinds of devices; those that people look for most come first."""
_TURNS: Final = Turns(2)
_MOST_ASKED: Final = 4
"""Selectors of one viewer that are evaluated or wait for it."""
_READS: Final = ("slices", "claims", "pods", "taintrules", "classes", "nodes", "events")


class Seen(NamedTuple):
    """A device as a viewer sees it. Of 40,000 devices, each of these is worked out once."""

    state: DeviceState
    key: str
    model: str
    shown: str


def derive(question: Question) -> Object:
    seen = _seen(question)
    kinds = _kinds(seen)
    document: Object = {
        "models": _models(seen),
        "kinds": kinds,
        "classes": {str(metadata_of(each)["name"]): True for each in question.objects("classes")},
        "seesAllClaims": question.sight.sees_all("claims"),
    }
    if question.query.get("show") == "claims":
        return {**document, **_claims(question)}
    found = sorted(_filtered(question.query, seen), key=lambda each: _ORDER.index(kinds[each.model]))
    document["found"] = len(found)
    document["devices"] = _rows(found)
    opened = next((each for each in seen if each.key == question.query.get("open")), None)
    if opened is not None:
        document["open"] = {**rows.details(opened.state, opened.shown), "rules": _rules(question, opened.state)}
    return document


def _seen(question: Question) -> list[Seen]:
    all_claims = question.sight.sees_all("claims")
    return [
        Seen(each, rows.key(each), rows.model(each), rows.shown_state(each, sees_all_claims=all_claims))
        for each in _states(question)
    ]


def _states(question: Question) -> list[DeviceState]:
    return device_states(*(question.objects(kind) for kind in ("slices", "claims", "pods", "taintrules")))


def _filtered(query: Mapping[str, str], seen: Iterable[Seen]) -> list[Seen]:
    state, model, words = query.get("state", ""), query.get("model", ""), query.get("q", "").lower().split()
    return [
        each
        for each in seen
        if state in ("", each.shown)
        and model in ("", each.model)
        and (not words or rows.found_by(words, each.state, each.shown))
    ]


def _rows(found: Sequence[Seen]) -> Object:
    return {each.key: rows.row(each.state, each.shown) for each in found[:_MOST_ROWS]}


def _models(seen: Iterable[Seen]) -> Object:
    """How many devices of each model are in each state."""
    models: dict[str, Counter[str]] = defaultdict(Counter)
    for (model, shown), number in Counter((each.model, each.shown) for each in seen).items():
        models[model][shown] = number
    return {name: dict(counts) for name, counts in models.items()}


def _kinds(seen: Iterable[Seen]) -> dict[str, str]:
    """Returns the kind of the devices of each model."""
    examples = {each.model: each.state for each in seen}
    return {name: kind_of(state.place[0], state.document) for name, state in examples.items()}


def _rules(question: Question, state: DeviceState) -> Object:
    """The DeviceTaintRules that taint the device, and how many others each taints."""
    found = [rule for rule in question.objects("taintrules") if rule_applies(rule, *state.place)]
    return {
        str(metadata_of(rule)["name"]): {
            "taint": dict(mapping(spec_of(rule).get("taint"))),
            "alone": mapping(spec_of(rule).get("deviceSelector")).get("device") == state.place[2],
        }
        for rule in found
    }


def _claims(question: Question) -> Object:
    words = question.query.get("q", "").lower().split()
    made = {"/".join(key_of(each)): _claim_row(each) for each in question.objects("claims")}
    wanted = question.query.get("state", "")
    found = {
        name: row
        for name, row in sorted(made.items())
        if wanted in ("", row["state"]) and all(word in f"{name} {row}".lower() for word in words)
    }
    document: Object = {"found": len(found), "claims": dict(list(found.items())[:_MOST_ROWS])}
    namespace, _, name = question.query.get("open", "").partition("/")
    claim = question.get("claims", name, namespace=namespace) if name else None
    if claim is not None:
        document["open"] = {
            **_claim_row(claim),
            "results": ["/".join((each["driver"], each["pool"], each["device"])) for each in results_of(claim)],
            **timelines.story(claim, question.objects("pods"), question.objects("events")),
        }
    return document


def _claim_row(claim: Object) -> Object:
    asked = [each for request in requests_of(spec_of(claim)) for each in alternatives_of(request)]
    nodes = sorted({each["pool"] for each in results_of(claim)})
    return {
        "state": timelines.state_of(claim),
        "classes": sorted({str(each.get("deviceClassName")) for each in asked}),
        "devices": len(results_of(claim)),
        "pools": nodes,
        "users": [str(each.get("name")) for each in reserved_for(claim)],
        "created": str(metadata_of(claim).get("creationTimestamp") or ""),
        "allocated": str(mapping(allocation_of(claim)).get("allocationTimestamp") or ""),
    }


async def match(call: Call) -> Any:
    """Which devices a class and a selector select, why not the others, and how many can be had at once."""
    class_name, selector = call.text("class", ""), call.text("selector", "").strip()
    if len(selector.encode()) > MAX_LENGTH:
        raise BadCall(f"a selector has at most {MAX_LENGTH} bytes")
    question = call.question
    if class_name and question.get("classes", class_name) is None:
        raise BadCall(f"DeviceClass {class_name[:80]} not found")
    objects = {kind: list(question.objects(kind)) for kind in _READS[:-1]}
    if _TURNS.asked(call.identity.key) >= _MOST_ASKED:
        raise BadCall("other selectors of yours are being evaluated; try again in a moment")
    query = {name: call.text(name, "") for name in ("q", "state", "model")}
    async with _TURNS.turn(call.identity.key):
        return await asyncio.to_thread(_answer, question, objects, class_name, selector, query)


def _answer(
    question: Question, objects: dict[str, list[Object]], class_name: str, selector: str, query: Mapping[str, str]
) -> Object:
    found = _match(objects, class_name, selector)
    wanted = found.pop("selected")
    selected = _filtered(query, [each for each in _seen(question) if each.key in wanted])
    return {**found, "seesAllClaims": question.sight.sees_all("claims"), "devices": _rows(selected)}


def _match(objects: dict[str, list[Object]], class_name: str, selector: str) -> Object:
    inventory = Inventory(
        slices=objects["slices"],
        classes=objects["classes"],
        claims=objects["claims"],
        taint_rules=objects["taintrules"],
    )
    matches = matching.find_matches(inventory, class_name, selector, Work(matching.WORK))
    document = {**matches.document(), "selected": frozenset(matches.selected)}
    if matches.selected:
        wanted = room.Wanted(class_name, selector, frozenset(matches.selected))
        nodes = room.nodes_with_devices(objects["nodes"], objects["slices"])
        document["room"] = room.find_room(inventory, nodes, wanted, Work(room.WORK)).document()
    return document


VIEW: Final = View(
    "devices",
    (*_READS, *actions.READS),
    derive,
    calls={"match": match, **actions.CALLS},
    parameters=("q", "state", "model", "show", "open"),
    interval=0.5,
)
