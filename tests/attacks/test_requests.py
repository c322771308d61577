"""Requests that are long or cost much disturb nobody, neither by what they send nor by what they ask for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.cluster import Cluster, withstands

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
YAML = {"Content-Type": "application/yaml"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
AS_YAML = {"Accept": "application/yaml"}
AS_TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}

Attack = Callable[[Cluster], object]


def sent(cluster: Cluster, code: int, method: str, path: str, body: Any = None, **headers: str) -> None:
    answer = cluster.request(method, path, body, headers=headers)
    assert answer.status == code, f"{method} {path}: {answer.status} {answer.body[:300]!r}"


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def pod(name: str) -> dict[str, Any]:
    """With a long list; on a node that does not exist, so that it stays as it is."""
    variables = [{"name": f"V{number}", "value": "v"} for number in range(8_000)]
    containers = [{"name": "c", "image": "i", "env": variables}]
    spec = {"nodeName": "nowhere", "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def owned_by_many(operation: str) -> list[dict[str, Any]]:
    return [
        {
            "manager": f"m{number}",
            "operation": operation,
            "apiVersion": "v1",
            "time": "2024-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {f"f:k{number}": {}}},
        }
        for number in range(15_000)
    ]


def yaml_that_multiplies(cluster: Cluster) -> None:
    levels = "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 31))
    sent(cluster, 400, "POST", REVIEWS, f"a0: &a0 {{k: v}}\n{levels}", **YAML)
    sent(cluster, 422, "POST", REVIEWS, f"spec: {{x: 1{':59' * 160_000}}}", **YAML)


def yaml_that_is_long(cluster: Cluster) -> None:
    keys = "\n".join(f"  k{number}: v" for number in range(20_000))
    sent(
        cluster,
        201,
        "POST",
        MAPS,
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: long}}\ndata:\n{keys}\n",
        **YAML,
    )
    sent(cluster, 422, "POST", REVIEWS, f"spec: {{x: [{'1,' * 150_000}]}}", **YAML)


def metadata_that_is_long(cluster: Cluster) -> None:
    sent(cluster, 201, "POST", MAPS, config_map("managed", managedFields=owned_by_many("Update")))
    sent(cluster, 413, "POST", MAPS, config_map("applied", managedFields=owned_by_many("Apply")))
    owner = {"apiVersion": "v1", "kind": "ConfigMap"}
    owners = [{**owner, "name": f"o{number}", "uid": f"u{number}"} for number in range(10_000)]
    sent(cluster, 201, "POST", MAPS, config_map("owned", ownerReferences=owners))
    finalizers = [f"example.com/f{number}" for number in range(25_000)]
    sent(cluster, 201, "POST", MAPS, config_map("held", finalizers=finalizers))
    sent(cluster, 201, "POST", MAPS, config_map("labelled", labels={f"l{number}": "v" for number in range(40_000)}))


def patches_that_are_long(cluster: Cluster) -> None:
    finalizers = [f"example.com/f{number}" for number in range(15_000)]
    sent(cluster, 201, "POST", MAPS, config_map("patched", finalizers=finalizers))
    insert = {"op": "add", "path": "/metadata/finalizers/0"}
    inserts = [{**insert, "value": f"example.com/g{number}"} for number in range(9_999)]
    sent(cluster, 200, "PATCH", f"{MAPS}/patched", inserts, **JSON_PATCH)
    sent(cluster, 201, "PATCH", f"{PODS}/applied?fieldManager=one", pod("applied"), **APPLY)


def answers_that_are_long(cluster: Cluster) -> None:
    for number in range(3):
        sent(cluster, 201, "POST", PODS, pod(f"long-{number}"))
    sent(cluster, 200, "GET", PODS, **AS_YAML)
    sent(cluster, 200, "GET", PODS, **AS_TABLE)
    sent(cluster, 200, "GET", f"{PODS}?fieldSelector=spec.nodeName%3Dnowhere")


def roles_that_select_each_other(cluster: Cluster) -> None:
    rule = {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]}
    for number in range(12):
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "aggregationRule": rule}
        sent(cluster, 201, "POST", ROLES, {**role, "metadata": {"name": f"r{number}", "labels": {"to": "all"}}})


def schemas_that_cost_much(cluster: Cluster) -> None:
    default = {"type": "object", "properties": {"a": {"type": "string", "default": "x" * 20_000}}}
    choices = {"type": "integer", "anyOf": [{"minimum": 1000 - number} for number in range(200)]}
    for plural, items, code, value in (
        ("fills", default, 413, [{}] * 50_000),
        ("choices", choices, 422, [801] * 20_000),
    ):
        sent(cluster, 201, "POST", DEFINITIONS, definition(plural, items))
        body = {"apiVersion": "x.example.com/v1", "kind": plural.title(), "metadata": {"name": "a"}, "spec": value}
        sent(cluster, code, "POST", f"/apis/x.example.com/v1/namespaces/default/{plural}", body)


def definition(plural: str, items: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "array", "items": items}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": "x.example.com",
        "scope": "Namespaced",
        "names": {"plural": plural, "kind": plural.title()},
        "versions": [version],
    }
    metadata = {"name": f"{plural}.x.example.com"}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**kind, "metadata": metadata, "spec": spec}


BODIES: list[Attack] = [yaml_that_multiplies, yaml_that_is_long, metadata_that_is_long, patches_that_are_long]
OTHERS: list[Attack] = [answers_that_are_long, roles_that_select_each_other, schemas_that_cost_much]


@pytest.mark.parametrize("attacks", [BODIES, OTHERS], ids=["bodies", "answers, roles and schemas"])
def test_long_requests(tmp_path: Path, attacks: list[Attack]) -> None:
    def attack(cluster: Cluster) -> None:
        for each in attacks:
            each(cluster)

    withstands(tmp_path, attack)
