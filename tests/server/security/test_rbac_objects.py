from __future__ import annotations

from typing import Any

import pytest

from dray.server.security import rbac_objects
from dray.server.security.builtin_roles import cluster_role_bindings, cluster_roles
from dray.server.security.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, GROUP, ROLE, ROLE_BINDING

from .test_rbac import rule


def problems(kind: str, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    return [(found.field, found.reason) for found in rbac_objects.validate(kind, obj, old)]


def test_what_is_built_in_is_valid() -> None:
    for obj in (*cluster_roles(), *cluster_role_bindings()):
        assert problems(obj["kind"], obj) == []
        assert rbac_objects.is_name(obj["metadata"]["name"])


@pytest.mark.parametrize(
    ("kind", "broken", "expected"),
    [
        (ROLE, {"apiGroups": [""], "resources": ["pods"]}, [("rules[0].verbs", "FieldValueRequired")]),
        (ROLE, {"verbs": ["get"], "resources": ["pods"]}, [("rules[0].apiGroups", "FieldValueRequired")]),
        (ROLE, {"verbs": ["get"], "apiGroups": [""]}, [("rules[0].resources", "FieldValueRequired")]),
        (ROLE, {"verbs": ["get"], "nonResourceURLs": ["/x"]}, [("rules[0].nonResourceURLs", "FieldValueInvalid")]),
        (CLUSTER_ROLE, {"verbs": ["get"], "nonResourceURLs": ["/x"]}, []),
        (
            CLUSTER_ROLE,
            {**rule("get", "core", "pods"), "nonResourceURLs": ["/x"]},
            [("rules[0].nonResourceURLs", "FieldValueInvalid")],
        ),
    ],
)
def test_rules(kind: str, broken: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert problems(kind, {"rules": [broken]}) == expected


def test_an_aggregation_selects_something() -> None:
    field = "aggregationRule.clusterRoleSelectors"
    assert problems(CLUSTER_ROLE, {"aggregationRule": {}}) == [(field, "FieldValueRequired")]


REFERENCE = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"}


@pytest.mark.parametrize(
    ("kind", "reference", "expected"),
    [
        (ROLE_BINDING, REFERENCE, []),
        (CLUSTER_ROLE_BINDING, {**REFERENCE, "kind": "Role"}, ["roleRef.kind"]),
        (ROLE_BINDING, {**REFERENCE, "kind": "Pod"}, ["roleRef.kind"]),
        (ROLE_BINDING, {**REFERENCE, "apiGroup": "x"}, ["roleRef.apiGroup"]),
        (ROLE_BINDING, {**REFERENCE, "name": ""}, ["roleRef.name"]),
        (ROLE_BINDING, {**REFERENCE, "name": "../admin"}, ["roleRef.name"]),
    ],
)
def test_role_references(kind: str, reference: dict[str, Any], expected: list[str]) -> None:
    assert [field for field, _ in problems(kind, {"roleRef": reference})] == expected


@pytest.mark.parametrize(
    ("kind", "subject", "expected"),
    [
        (ROLE_BINDING, {"kind": "User", "name": "jane", "apiGroup": GROUP}, []),
        (ROLE_BINDING, {"kind": "User", "name": "", "apiGroup": GROUP}, ["name"]),
        (ROLE_BINDING, {"kind": "User", "name": "jane", "apiGroup": "x"}, ["apiGroup"]),
        (ROLE_BINDING, {"kind": "ServiceAccount", "name": "x"}, []),
        (CLUSTER_ROLE_BINDING, {"kind": "ServiceAccount", "name": "x"}, ["namespace"]),
        (ROLE_BINDING, {"kind": "ServiceAccount", "name": "x", "apiGroup": GROUP}, ["apiGroup"]),
        (ROLE_BINDING, {"kind": "Robot", "name": "x"}, ["kind"]),
    ],
)
def test_subjects(kind: str, subject: dict[str, Any], expected: list[str]) -> None:
    found = problems(kind, {"roleRef": REFERENCE, "subjects": [subject]})
    assert [field for field, _ in found] == [f"subjects[0].{member}" for member in expected]


def test_the_role_of_a_binding_is_for_good() -> None:
    old = {"roleRef": REFERENCE}
    new = {"roleRef": {**REFERENCE, "name": "admin"}}
    assert problems(ROLE_BINDING, new, old) == [("roleRef", "FieldValueInvalid")]


def test_defaults() -> None:
    binding: dict[str, Any] = {
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "a"}, {"kind": "ServiceAccount", "name": "b"}],
    }
    rbac_objects.fill_defaults(binding)
    assert binding["roleRef"]["apiGroup"] == GROUP
    assert [subject.get("apiGroup") for subject in binding["subjects"]] == [GROUP, None]
