"""Reviews: who may do what, asked as an object and answered in its status.

The four kinds of `authorization.k8s.io/v1`. A self review is about its sender; a SubjectAccessReview about anybody, for
those who may create one; a LocalSubjectAccessReview about anybody in one namespace, which must be that of its path.
`kubectl auth can-i` asks SelfSubjectAccessReview, with `--list` SelfSubjectRulesReview.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dray.api import errors
from dray.api.errors import FieldError
from dray.api.objects import Object
from dray.server import status
from dray.server.authorization import MASTERS, Access, Authorizer, Decision, User
from dray.server.security.policy import Policy
from dray.server.security.rules import PolicyRule
from dray.server.security.users import node_of

GROUP = "authorization.k8s.io"
API_VERSION = f"{GROUP}/v1"


def review_self_access(authorizer: Authorizer, user: User, review: Object) -> Object:
    spec = _spec(review)
    _refuse_invalid("SelfSubjectAccessReview", _check_attributes(spec))
    return _answer(review, "SelfSubjectAccessReview", _decide(authorizer, user, spec))


def review_access(authorizer: Authorizer, review: Object) -> Object:
    spec = _spec(review)
    _refuse_invalid("SubjectAccessReview", _check_attributes(spec) + _check_subject(spec))
    return _answer(review, "SubjectAccessReview", _decide(authorizer, _subject(spec), spec))


def review_local_access(authorizer: Authorizer, review: Object, namespace: str) -> Object:
    """Answers a LocalSubjectAccessReview; `namespace` is that of the path, for which the sender was authorized."""
    spec = _spec(review)
    asked = (spec.get("resourceAttributes") or {}).get("namespace") or ""
    found = _check_attributes(spec) + _check_subject(spec)
    if spec.get("nonResourceAttributes") is not None:
        found.append(errors.invalid("spec.nonResourceAttributes", None, "disallowed on this kind of request"))
    _refuse_invalid("LocalSubjectAccessReview", found)
    if asked != namespace or ((review.get("metadata") or {}).get("namespace") or namespace) != namespace:
        raise status.bad_request(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
    answer = _answer(review, "LocalSubjectAccessReview", _decide(authorizer, _subject(spec), spec))
    answer["metadata"]["namespace"] = namespace
    return answer


def review_self_rules(policy: Policy, user: User, review: Object) -> Object:
    namespace = _spec(review).get("namespace") or ""
    if not namespace:
        raise status.bad_request("no namespace on request")
    rules = [rule for grant in policy.grants(user, namespace) for rule in grant.rules]
    cluster_wide = [rule for grant in policy.grants(user, "") for rule in grant.rules]
    if MASTERS in user.groups:
        everything = frozenset({"*"})
        rules = [*rules, PolicyRule(everything, everything, everything)]
        cluster_wide = [*cluster_wide, PolicyRule(everything, urls=everything)]
    incomplete = node_of(user) is not None
    return {
        "kind": "SelfSubjectRulesReview",
        "apiVersion": API_VERSION,
        "metadata": {"creationTimestamp": None},
        "spec": {},
        "status": {
            "resourceRules": _documents([rule for rule in rules if rule.resources]),
            "nonResourceRules": _documents([rule for rule in cluster_wide if rule.urls]),
            "incomplete": incomplete,
            **({"evaluationError": "node authorizer does not support user rule resolution"} if incomplete else {}),
        },
    }


def _decide(authorizer: Authorizer, user: User, spec: Object) -> Decision:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return authorizer.authorize(user, Access(path.get("verb") or "", path=path.get("path") or "/"))
    asked = spec["resourceAttributes"]
    resource, slash, subresource = (asked.get("resource") or "").partition("/")
    access = Access(
        asked.get("verb") or "",
        asked.get("group") or "",
        resource,
        asked.get("subresource") or (subresource if slash else ""),
        asked.get("namespace") or "",
        asked.get("name") or "",
        field_selector=_field_selector(asked.get("fieldSelector")),
    )
    return authorizer.authorize(user, access)


def _field_selector(selector: Mapping[str, Any] | None) -> str:
    """Returns the selector as a query parameter. Other requirements are left out, which only widens the question."""
    if not selector:
        return ""
    if selector.get("rawSelector"):
        return str(selector["rawSelector"])
    signs = {"In": "=", "NotIn": "!="}
    terms = [
        f"{item.get('key')}{signs[item['operator']]}{_escaped(str(item['values'][0]))}"
        for item in selector.get("requirements") or ()
        if item.get("operator") in signs and len(item.get("values") or ()) == 1
    ]
    return ",".join(terms)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def _check_attributes(spec: Object) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        what = "cannot be specified in combination with resourceAttributes"
        return [errors.invalid("spec.nonResourceAttributes", path, what)]
    if resource is None and path is None:
        what = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [errors.invalid("spec.resourceAttributes", None, what)]
    return []


def _check_subject(spec: Object) -> list[FieldError]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [errors.invalid("spec.user", spec.get("user") or "", "at least one of user or group must be specified")]


def _refuse_invalid(kind: str, found: list[FieldError]) -> None:
    if found:
        raise status.invalid(kind, GROUP, "", found)


def _subject(spec: Object) -> User:
    extra = {str(key).lower(): tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)


def _answer(review: Object, kind: str, decision: Decision) -> Object:
    reason = {"reason": decision.reason} if decision.reason else {}
    return {
        "kind": kind,
        "apiVersion": API_VERSION,
        "metadata": {"creationTimestamp": None},
        "spec": _spec(review),
        "status": {"allowed": decision.allowed, **reason},
    }


def _spec(review: Object) -> Object:
    spec = review.get("spec")
    return spec if isinstance(spec, dict) else {}


def _documents(rules: list[PolicyRule]) -> list[dict[str, list[str]]]:
    return [rule.document() for rule in dict.fromkeys(rules)]
