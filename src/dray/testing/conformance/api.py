"""The `api` corpus: single requests, all of them dry runs, with the answers of Kubernetes.

The world of the corpus: namespaces `default` and `admins` (which permits admin access), the service account
`default/default` and one stored claim, `default/live`. All feature gates are on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from dray.api.objects import mapping
from dray.testing.conformance.corpus import Case, Outcome
from dray.testing.conformance.servers import Answer, InProcess, OverHttp, Server, create

_NAMESPACES = "/api/v1/namespaces"
WORLD: tuple[tuple[str, dict[str, Any]], ...] = (
    (_NAMESPACES, {"metadata": {"name": "default"}}),
    (
        _NAMESPACES,
        {"metadata": {"name": "admins", "labels": {"resource.kubernetes.io/admin-access": "true"}}},
    ),
    (f"{_NAMESPACES}/default/serviceaccounts", {"metadata": {"name": "default"}}),
    (
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        {
            "metadata": {"name": "live"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
        },
    ),
)
# Members that differ between servers or times, and are not compared.
_VOLATILE = ("uid", "creationTimestamp", "managedFields", "resourceVersion", "generation", "selfLink")


def run(case: Case) -> Outcome:
    return ask(case, _in_process())


def over_http(url: str, token: str) -> Callable[[Case], Outcome]:
    server = OverHttp(url, token)
    prepare(server)
    return lambda case: ask(case, server)


@cache
def _in_process() -> Server:
    server = InProcess()
    prepare(server)
    return server


def prepare(server: Server) -> None:
    """Creates the objects of the corpus, if they do not exist."""
    for path, document in WORLD:
        answer = create(server, path, document)
        if answer.code not in (200, 201, 409):
            raise RuntimeError(f"{path} {document['metadata']['name']}: {answer.code} {answer.document}")


def ask(case: Case, server: Server) -> Outcome:
    body = msgspec.json.encode(case["body"])
    answer = server.ask(case["method"], case["path"], body, content_type="application/json")
    return Outcome(case["name"], _compare(case["expect"], answer))


def _compare(expect: dict[str, Any], answer: Answer) -> str | None:
    given = answer.document
    if answer.code != expect["code"]:
        text = given.get("message", "") if isinstance(given, dict) else given
        causes = str(expect.get("causes") or "")[:200]
        return f"expected {expect['code']} {causes}, got {answer.code}: {text[:300]}"
    if answer.code >= 300:
        wanted = {(field, reason) for field, reason in expect.get("causes") or []}
        found = {
            (cause.get("field", ""), cause.get("reason", ""))
            for cause in mapping(given.get("details")).get("causes") or []
        }
        if wanted != found:
            return f"causes missing {sorted(wanted - found)}, not expected {sorted(found - wanted)}"
        return None
    return first_difference(_stripped(expect["object"]), _stripped(without_tokens(given)), "")


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _stripped(item)
            for name, item in value.items()
            if name != "timeAdded" and not (name in _VOLATILE and "metadata" not in value)
        }
    return [_stripped(item) for item in value] if isinstance(value, list) else value


def without_tokens(value: Any) -> Any:
    """Returns the value without token volumes of service accounts, their mounts, and lists that become empty."""
    if isinstance(value, dict):
        members = {name: without_tokens(item) for name, item in value.items()}
        return {name: item for name, item in members.items() if item or not value[name]}
    if isinstance(value, list):
        return [without_tokens(item) for item in value if not _is_token(item)]
    return value


def _is_token(value: Any) -> bool:
    return isinstance(value, dict) and str(value.get("name", "")).startswith("kube-api-access-")


def first_difference(wanted: Any, given: Any, path: str) -> str | None:
    """Describes the first difference between two documents; None if they are equal."""
    if isinstance(wanted, dict) and isinstance(given, dict):
        for name in sorted({*wanted, *given}):
            if name not in given:
                return f"{path}.{name} is missing, expected {wanted[name]!r}"
            if name not in wanted:
                return f"{path}.{name} is {given[name]!r}, not expected"
            if found := first_difference(wanted[name], given[name], f"{path}.{name}"):
                return found
        return None
    if isinstance(wanted, list) and isinstance(given, list) and len(wanted) == len(given):
        pairs = enumerate(zip(wanted, given, strict=True))
        return next((found for i, (w, g) in pairs if (found := first_difference(w, g, f"{path}[{i}]"))), None)
    return None if wanted == given else f"{path} is {given!r}, expected {wanted!r}"
