"""Requests and objects within the limits of the API whose work could take long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from tests.attacks.cluster import Cluster, withstands
from tests.attacks.test_objects import CLAIMS, PODS, SLICES, pod

MAPS = "/api/v1/namespaces/default/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
YAML = {"Content-Type": "application/yaml"}
RESOURCE = "resource.k8s.io/v1"
DRIVER = "hard.example.com"


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {}}


def bodies_and_answers_that_are_small_and_mean_much(cluster: Cluster) -> None:
    levels = [f"a{level}: &a{level} {{<<: [*a{level - 1}, *a{level - 1}]}}" for level in range(1, 25)]
    merged = "\n".join(["a0: &a0 {k: v}", *levels])
    minutes = "x: 1" + ":59" * 160_000
    keys = "\n".join(["data:", *(f"  k{number}: v" for number in range(40_000))])
    numbers = f"data: {{a: [{','.join(['1'] * 250_000)}]}}"

    for body in (merged, minutes, keys, numbers):
        cluster.request("POST", REVIEWS, body, headers=YAML)
    cluster.request("POST", REVIEWS, b'{"a":' * 300_000)
    long_lists_as_yaml(cluster)
    roles_that_aggregate_each_other(cluster)


def metadata_of_many_entries(cluster: Cluster) -> None:
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    fields = [{**entry, "manager": f"m{n}", "fieldsV1": {"f:data": {f"f:k{n}": {}}}} for n in range(15_000)]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody"}
    owners = [{**owner, "uid": f"00000000-0000-0000-0000-{number:012}"} for number in range(20_000)]
    operations = [{"op": "add", "path": "/metadata/finalizers/0", "value": f"a.b/{n}"} for n in range(9_999)]

    cluster.create(MAPS, config_map("thing", finalizers=["a.b/c"]))
    for map_ in (
        config_map("fields", managedFields=fields),
        config_map("owners", ownerReferences=owners),
        config_map("finalizers", finalizers=[f"a.b/c{number}" for number in range(100_000)]),
        config_map("labels", labels={f"label-{number}": "v" for number in range(100_000)}),
    ):
        cluster.request("POST", MAPS, map_)
    cluster.request("PATCH", f"{MAPS}/thing", operations, headers={"Content-Type": "application/json-patch+json"})


def applied_lists_of_many_items(cluster: Cluster) -> None:
    made = pod("many")
    made["spec"]["containers"][0]["env"] = [{"name": f"E{number}", "value": "v"} for number in range(20_000)]
    headers = {"Content-Type": "application/apply-patch+yaml"}

    for manager in "ab":
        path = f"{PODS}/many?fieldManager={manager}&force=true"
        cluster.request("PATCH", path, yaml.safe_dump(made) if manager == "b" else made, headers=headers)


def long_lists_as_yaml(cluster: Cluster) -> None:
    data = {f"key-{number}": "value" for number in range(1000)}
    for number in range(50):
        cluster.create(MAPS, config_map(f"map-{number}", data))
    answer = cluster.request("GET", MAPS, headers={"Accept": "application/yaml"}, timeout=120)
    assert answer.status == 200


def roles_that_aggregate_each_other(cluster: Cluster) -> None:
    selectors = [{"matchLabels": {"aggregate": "all"}}]
    for number in range(12):
        metadata = {"name": f"role-{number}", "labels": {"aggregate": "all"}}
        role = {"metadata": metadata, "aggregationRule": {"clusterRoleSelectors": selectors}, "rules": []}
        cluster.request("POST", ROLES, {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", **role})


def hard_nodes(cluster: Cluster) -> None:
    """Eight nodes with sixteen devices that agree and differ in three attributes."""
    for node in range(8):
        name = f"hard-{node}"
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "capacity": amounts, "allocatable": amounts}
        cluster.create(
            "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": ready}
        )
        devices = [
            {
                "name": f"d{each}",
                "attributes": {
                    "root": {"int": each % 4},
                    "switch": {"int": each * 7 % 5},
                    "model": {"int": each % 3},
                    "uuid": {"string": f"{name}-{each}"},
                },
            }
            for each in range(16)
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        cluster.create(
            SLICES, {"apiVersion": RESOURCE, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
        )
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    class_ = {
        "apiVersion": RESOURCE,
        "kind": "DeviceClass",
        "metadata": {"name": "hard"},
        "spec": {"selectors": selectors},
    }
    cluster.create("/apis/resource.k8s.io/v1/deviceclasses", class_)


def wanting(cluster: Cluster, name: str, devices: dict[str, Any]) -> None:
    claim = {"apiVersion": RESOURCE, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": {"devices": devices}}
    cluster.create(CLAIMS, claim)
    cluster.create(PODS, pod(name, resourceClaims=[{"name": "c", "resourceClaimName": name}]))


def claims_that_are_hard_to_search(cluster: Cluster) -> None:
    for seed in range(5):
        random = Random(seed)
        number = 16
        constraints = []
        for _ in range(32):
            pair = [f"q{each}" for each in random.sample(range(number), 2)]
            kind = random.choice(["distinctAttribute", "distinctAttribute", "matchAttribute"])
            attribute = random.choice(["root", "switch", "model"])
            constraints.append({"requests": pair, kind: f"{DRIVER}/{attribute}"})
        requests = [{"name": f"q{each}", "exactly": {"deviceClassName": "hard"}} for each in range(number)]
        wanting(cluster, f"hard-{seed}", {"requests": requests, "constraints": constraints})


def claims_with_costly_selectors(cluster: Cluster) -> None:
    # Each reads what differs between all devices, and takes what a selector may take.
    costly = f'device.attributes["{DRIVER}"].uuid.matches("^([a-z]+-[0-9]+){{1,9}}$")'
    heavy = " && ".join([costly] * 20)

    selectors = [{"cel": {"expression": f"{heavy} && {number} == {number}"}} for number in range(31)]
    exactly = {"deviceClassName": "hard", "selectors": selectors}
    wanting(cluster, "costly", {"requests": [{"name": "q", "exactly": exactly}]})


def pods_with_many_ports_and_many_claims(cluster: Cluster) -> None:
    def ports(first: int) -> list[dict[str, Any]]:
        return [
            {"containerPort": 1, "hostPort": 1 + (first + each) % 65_535, "hostIP": "10.0.0.1"}
            for each in range(15_000)
        ]

    for number, node in enumerate(("big", "cheap", "cut", "shared")):
        made = pod(f"ports-{number}", nodeName=node)
        made["spec"]["containers"][0]["ports"] = ports(0)
        cluster.request("POST", PODS, made)
    made = pod("ports")
    made["spec"]["containers"][0]["ports"] = ports(20_000)
    cluster.request("POST", PODS, made)
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    spec = {"spec": {"devices": {"requests": requests}}}
    kind = {"apiVersion": RESOURCE, "kind": "ResourceClaimTemplate"}
    cluster.create(TEMPLATES, {**kind, "metadata": {"name": "one"}, "spec": spec})
    claims = [{"name": f"c{number}", "resourceClaimTemplateName": "one"} for number in range(500)]
    cluster.request("POST", PODS, pod("claims", resourceClaims=claims))


# To start a cluster and to start it again costs more than most attacks do.
BODIES = (bodies_and_answers_that_are_small_and_mean_much, metadata_of_many_entries, applied_lists_of_many_items)
PLACING = (
    hard_nodes,
    claims_that_are_hard_to_search,
    claims_with_costly_selectors,
    pods_with_many_ports_and_many_claims,
)


@pytest.mark.parametrize(("attacks", "settle"), [(BODIES, 1.0), (PLACING, 5.0)], ids=["bodies", "placing"])
def test_costly_work(tmp_path: Path, attacks: tuple[Callable[[Cluster], None], ...], settle: float) -> None:
    def attack(cluster: Cluster) -> None:
        for each in attacks:
            each(cluster)

    withstands(tmp_path, attack, settle=settle)
