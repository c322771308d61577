"""Authorizer checks in policies: `authorizer.group("").resource("pods").namespace("x").check("get").allowed()`.

What is asked is put together here; who decides is handed in, so that this room knows nothing of users.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from dray.cel import types as t
from dray.cel.declarations import Library
from dray.cel.errors import EvaluationError, no_such_overload
from dray.cel.values import Value, register_type

LIBRARY: Final = Library("authorizer")


@dataclass(frozen=True, slots=True)
class Question:
    """Empty account: whoever sent the request. With a path, everything but the verb is empty."""

    verb: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""
    account: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    reason: str = ""
    error: str = ""


Decide = Callable[[Question], Decision]


@dataclass(frozen=True, slots=True)
class Authorizer:
    decide: Decide
    question: Question = Question()


class PathCheck(Authorizer):
    __slots__ = ()


class GroupCheck(Authorizer):
    __slots__ = ()


class ResourceCheck(Authorizer):
    __slots__ = ()


for _type, _declared in (
    (Authorizer, t.AUTHORIZER),
    (PathCheck, t.PATH_CHECK),
    (GroupCheck, t.GROUP_CHECK),
    (ResourceCheck, t.RESOURCE_CHECK),
    (Decision, t.DECISION),
):
    register_type(_type, _declared.name)
    LIBRARY.constants[_declared.name] = _declared


def _step(function: str, takes: type, gives: type, **members: str) -> Callable[..., Any]:
    """A method of `takes` that gives the same question with one member more."""

    def apply(receiver: Value, *texts: Value) -> Any:
        if type(receiver) is not takes or not all(type(text) is str for text in texts):
            raise no_such_overload(function)
        assert isinstance(receiver, Authorizer)
        named = dict(zip(members, texts, strict=True))
        return gives(receiver.decide, replace(receiver.question, **named))

    return apply


def _path(receiver: Value, path: Value) -> PathCheck:
    if type(receiver) is not Authorizer or type(path) is not str:
        raise no_such_overload("path")
    if not path:
        raise EvaluationError("path must not be empty")
    return PathCheck(receiver.decide, replace(receiver.question, path=path))


def _service_account(receiver: Value, namespace: Value, name: Value) -> Authorizer:
    if type(receiver) is not Authorizer or type(namespace) is not str or type(name) is not str:
        raise no_such_overload("serviceAccount")
    return Authorizer(receiver.decide, replace(receiver.question, account=(namespace, name)))


def _check(receiver: Value, verb: Value) -> Decision:
    if type(receiver) not in (PathCheck, ResourceCheck) or type(verb) is not str:
        raise no_such_overload("check")
    decided: Decision = receiver.decide(replace(receiver.question, verb=verb))
    return decided


def _read(function: str, read: Callable[[Decision], Value]) -> Callable[[Value], Value]:
    def apply(decision: Value) -> Value:
        if type(decision) is not Decision:
            raise no_such_overload(function)
        return read(decision)

    return apply


_f = LIBRARY.function
_f("path", _path, "authorizer_path: Authorizer.(string) -> PathCheck")
_f("serviceAccount", _service_account, "authorizer_serviceaccount: Authorizer.(string, string) -> Authorizer")
_f("group", _step("group", Authorizer, GroupCheck, group=""), "authorizer_group: Authorizer.(string) -> GroupCheck")
_f(
    "resource",
    _step("resource", GroupCheck, ResourceCheck, resource=""),
    "groupcheck_resource: GroupCheck.(string) -> ResourceCheck",
)
for _name, _member in (
    ("subresource", "subresource"),
    ("namespace", "namespace"),
    ("name", "name"),
    ("fieldSelector", "field_selector"),
):
    _f(
        _name,
        _step(_name, ResourceCheck, ResourceCheck, **{_member: ""}),
        f"resourcecheck_{_name}: ResourceCheck.(string) -> ResourceCheck",
    )
# Selectors by label only ever narrow what is asked: nobody here grants by labels.
_f(
    "labelSelector",
    lambda receiver, _: receiver,
    "resourcecheck_labelSelector: ResourceCheck.(string) -> ResourceCheck",
)
_f(
    "check",
    _check,
    "pathcheck_check: PathCheck.(string) -> Decision",
    "resourcecheck_check: ResourceCheck.(string) -> Decision",
)
_f("allowed", _read("allowed", lambda found: found.allowed), "decision_allowed: Decision.() -> bool")
_f("reason", _read("reason", lambda found: found.reason), "decision_reason: Decision.() -> string")
_f("errored", _read("errored", lambda found: bool(found.error)), "decision_errored: Decision.() -> bool")
_f("error", _read("error", lambda found: found.error), "decision_error: Decision.() -> string")
