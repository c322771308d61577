"""The `api` corpus: HTTP requests, played through the same path that the server uses.

The world of the corpus: namespaces `default` and `admins` (which permits admin access), and one stored claim,
`default/live`. All feature gates are on.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from dray.api import catalogue, intake
from dray.api.gates import ALL_GATES
from dray.api.intake import Accepted, Place, Refusal
from dray.api.rules import Rules
from dray.cel import Expressions
from dray.testing.conformance.corpus import Case, Outcome

NOW = "2026-01-01T00:00:00Z"
ADMIN_NAMESPACES = frozenset({"admins"})
LIVE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "live", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
}
# Of an answer these are not compared: they differ from one server, or second, to the next.
_VOLATILE = ("uid", "creationTimestamp", "managedFields", "resourceVersion", "generation", "selfLink")


def run(case: Case) -> Outcome:
    verdict, target = _ask(case)
    return Outcome(case["name"], _compare(case["expect"], verdict, target))


def _ask(case: Case) -> tuple[Accepted | Refusal, catalogue.KindVersion]:
    parts = urlsplit(case["path"]).path.strip("/").split("/")
    group, version, *rest = ("", *parts[1:]) if parts[0] == "api" else parts[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    target = catalogue.find_plural(group, version, plural)
    assert target is not None, case["path"]
    rules = Rules(ALL_GATES, Expressions(), admin_namespace=namespace in ADMIN_NAMESPACES)
    place = Place(namespace, name)
    if case["method"] == "POST":
        return intake.create(case["body"], target, place, rules, now=NOW), target
    stored = intake.decode(LIVE, intake.hub(target.entry), now=NOW, gates=ALL_GATES)
    assert not isinstance(stored, Refusal)
    return intake.update(case["body"], stored, target, place, rules, now=NOW, subresource=subresource), target


def _compare(expect: dict[str, Any], verdict: Accepted | Refusal, target: catalogue.KindVersion) -> str | None:
    if isinstance(verdict, Refusal):
        if verdict.code != expect["code"]:
            return f"expected {expect['code']} {_short(expect)}, got {verdict.code}: {verdict.message[:300]}"
        wanted = {(field, reason) for field, reason in expect.get("causes") or []}
        given = {(error.field, error.reason) for error in verdict.causes}
        if wanted != given:
            return f"causes missing {sorted(wanted - given)}, not expected {sorted(given - wanted)}"
        return None
    if expect["code"] >= 300:
        return f"expected {expect['code']} {_short(expect)}, but the object was accepted"
    answer = _stripped(intake.answer(verdict.object, target))
    wanted_object = _stripped(expect["object"])
    return None if answer == wanted_object else _first_difference(wanted_object, answer, "")


def _short(expect: dict[str, Any]) -> str:
    return str(expect.get("causes") or "")[:200]


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _stripped(item)
            for name, item in value.items()
            if name != "timeAdded" and not (name in _VOLATILE and "metadata" not in value)
        }
    return [_stripped(item) for item in value] if isinstance(value, list) else value


def _first_difference(wanted: Any, given: Any, path: str) -> str | None:
    if isinstance(wanted, dict) and isinstance(given, dict):
        for name in sorted({*wanted, *given}):
            if name not in given:
                return f"{path}.{name} is missing, expected {wanted[name]!r}"
            if name not in wanted:
                return f"{path}.{name} is {given[name]!r}, not expected"
            if found := _first_difference(wanted[name], given[name], f"{path}.{name}"):
                return found
        return None
    if isinstance(wanted, list) and isinstance(given, list) and len(wanted) == len(given):
        pairs = enumerate(zip(wanted, given, strict=True))
        return next((found for i, (w, g) in pairs if (found := _first_difference(w, g, f"{path}[{i}]"))), None)
    return None if wanted == given else f"{path} is {given!r}, expected {wanted!r}"
