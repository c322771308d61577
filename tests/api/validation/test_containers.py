"""Containers and volumes of pods."""

import pytest

from tests.api.objects import POD, causes, changed, create


def container(**members):
    return changed(POD, {f"spec.containers.0.{name}": value for name, value in members.items()})


def found(pod, prefix="spec.containers[0]."):
    return {cause.removeprefix(prefix) for cause in causes(create(pod))}


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        ([{"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 81}], set()),
        (
            [{"containerPort": 80, "hostPort": 80}, {"containerPort": 1, "hostPort": 80}],
            {"ports[1].hostPort Duplicate"},
        ),
        ([{"containerPort": 80, "hostPort": 80}, {"containerPort": 1, "hostPort": 80, "hostIP": "::1"}], set()),
        ([{"containerPort": 80, "hostPort": 80}, {"containerPort": 1, "hostPort": 80, "protocol": "UDP"}], set()),
        ([{"containerPort": 80, "hostPort": 65536}], {"ports[0].hostPort Invalid"}),
        ([{"containerPort": -1}], {"ports[0].containerPort Invalid"}),
        ([{"containerPort": 0}], {"ports[0].containerPort Required"}),
        ([{"containerPort": 80, "protocol": "HTTP"}], {"ports[0].protocol NotSupported"}),
        ([{"containerPort": 80, "name": "a--b"}], {"ports[0].name Invalid"}),
        ([{"containerPort": 80, "name": "-"}], {"ports[0].name Invalid"}),
        ([{"containerPort": 80, "name": "80"}], {"ports[0].name Invalid"}),
        ([{"containerPort": 80, "name": "web-1"}, {"containerPort": 81, "name": "web-1"}], {"ports[1].name Duplicate"}),
    ],
)
def test_ports(ports, expected):
    assert found(container(ports=ports)) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"prefix": "A_", "configMapRef": {"name": "c"}}, set()),
        ({"secretRef": {"name": "s"}}, set()),
        ({"prefix": "A=", "configMapRef": {"name": "c"}}, {"envFrom[0].prefix Invalid"}),
        ({"prefix": "A\nB", "configMapRef": {"name": "c"}}, {"envFrom[0].prefix Invalid"}),
        ({"configMapRef": {"name": ""}}, {"envFrom[0].configMapRef.name Required"}),
        ({"secretRef": {"name": "a b"}}, {"envFrom[0].secretRef.name Invalid"}),
        ({"prefix": "A"}, {"envFrom Invalid"}),
        ({"configMapRef": {"name": "c"}, "secretRef": {"name": "s"}}, {"envFrom Invalid"}),
    ],
)
def test_variables_from_objects(source, expected):
    assert found(container(envFrom=[source])) == expected


def test_two_containers_do_not_share_a_port_of_the_host():
    port = [{"containerPort": 80, "hostPort": 80}]
    two = [{"name": name, "image": "i", "ports": port} for name in ("a", "b")]
    spec = {"spec.resourceClaims": None, "spec.containers": two}
    assert found(changed(POD, spec), "") == {"spec.containers[1].ports[0].hostPort Duplicate"}
    first = {"spec.resourceClaims": None, "spec.containers": two[:1], "spec.initContainers": two[1:]}
    assert found(changed(POD, first)) == set(), "an init container is over by then"


def test_the_ports_of_a_host_network_are_those_of_the_host():
    ports = [{"containerPort": 80, "hostPort": 81}]
    pod = changed(container(ports=ports), {"spec.hostNetwork": True})
    assert found(pod) == {"ports[0].hostPort Invalid"}


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ({"name": "A-b.c d", "value": "1"}, set()),
        ({"name": ""}, {"env[0].name Required"}),
        ({"name": "A=B"}, {"env[0].name Invalid"}),
        ({"name": "Ä"}, {"env[0].name Invalid"}),
        ({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, set()),
        ({"name": "A", "valueFrom": {}}, {"env[0].valueFrom Invalid"}),
        ({"name": "A", "value": "1", "valueFrom": {"secretKeyRef": {"key": "k"}}}, {"env[0].valueFrom Invalid"}),
    ],
)
def test_environment(variable, expected):
    assert found(container(env=[variable])) == expected


def test_mounts():
    volumes = [{"name": "v"}, {"name": "v"}, {"name": "w", "emptyDir": {}, "hostPath": {"path": "/"}}, {"name": ""}]
    assert found(changed(POD, {"spec.volumes": volumes}), "spec.volumes") == {
        "[1].name Duplicate",
        "[2].hostPath Forbidden",
        "[3].name Required",
    }
    mounts = [{"name": "v", "mountPath": "/a"}, {"name": "x", "mountPath": "/a"}, {"name": "v", "mountPath": ""}]
    pod = changed(container(volumeMounts=mounts), {"spec.volumes": [{"name": "v"}]})
    assert found(pod) == {
        "volumeMounts[1].name NotFound",
        "volumeMounts[1].mountPath Invalid",
        "volumeMounts[2].mountPath Required",
    }


def test_probes():
    probe = {"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}, "periodSeconds": -1, "successThreshold": 2}
    assert found(container(livenessProbe=probe)) == {
        "livenessProbe.tcpSocket Forbidden",
        "livenessProbe.periodSeconds Invalid",
        "livenessProbe.successThreshold Invalid",
    }
    assert found(container(readinessProbe={"successThreshold": 2})) == {"readinessProbe Required"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"requests": {"cpu": "1e400"}}, set()),
        ({"requests": {"cpu": "-1"}}, {"requests[cpu] Invalid"}),
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}, {"requests Invalid"}),
        ({"limits": {"hugepages-2Mi": "4Mi", "cpu": "1"}}, set()),
        (
            {"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}},
            {"limits[hugepages-2Mi] Invalid", "requests[hugepages-2Mi] Invalid"},
        ),
        ({"limits": {"hugepages-2Mi": "4Mi"}}, {" Forbidden"}),
        (
            {"limits": {"example.com/gpu": "500m"}},
            {"limits[example.com/gpu] Invalid", "requests[example.com/gpu] Invalid"},
        ),
        (
            {"limits": {"requests.example.com/gpu": "1"}},
            {"limits[requests.example.com/gpu] Invalid", "requests[requests.example.com/gpu] Invalid"},
        ),
        ({"limits": {"gpu": "1"}}, {"limits[gpu] Invalid", "requests[gpu] Invalid"}),
    ],
)
def test_amounts(resources, expected):
    pod = changed(POD, {"spec.resourceClaims": None, "spec.containers.0.resources": resources})
    path = "spec.containers[0].resources"
    assert {cause.removeprefix(path).removeprefix(".") for cause in causes(create(pod))} == expected
    overhead = resources.get("limits")
    if overhead:
        of_overhead = {
            cause.removeprefix("spec.overhead").removeprefix(".")
            for cause in causes(create(changed(POD, {"spec.overhead": overhead})))
        }
        assert of_overhead == {cause for cause in expected if not cause.startswith("requests")}


@pytest.mark.parametrize(
    ("whole", "expected"),
    [
        ({"requests": {"cpu": "1"}}, set()),
        ({"requests": {"cpu": "500m"}}, {"requests[cpu] Invalid"}),
        ({"requests": {"example.com/gpu": "1"}}, {"requests[example.com/gpu] NotSupported", "limits Required"}),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "1500m"}}, {"containers[0][cpu].limits Invalid"}),
    ],
)
def test_amounts_of_the_pod_as_a_whole(whole, expected):
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    spec = {"spec.resourceClaims": None, "spec.containers.0.resources": resources, "spec.resources": whole}
    assert found(changed(POD, spec), "spec.resources.") == expected
