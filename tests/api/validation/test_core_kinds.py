"""Config maps, secrets, quotas, nodes and events."""

import base64

import pytest

from tests.api.objects import causes, changed, create, update


def core(kind, **members):
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x", "namespace": "default"}, **members}


def encoded(size):
    return base64.b64encode(b"x" * size).decode()


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"data": {"a.b-c_D": "1"}, "binaryData": {"e": "eA=="}}, set()),
        ({"data": {"a/b": "1"}}, {"data[a/b] Invalid"}),
        ({"data": {"": "1"}}, {"data[] Invalid"}),
        (
            {"data": {"..": "1", "..a": "1", ".": "1", ".a": "1"}},
            {"data[..] Invalid", "data[..a] Invalid", "data[.] Invalid"},
        ),
        ({"binaryData": {"a b": "eA=="}}, {"binaryData[a b] Invalid"}),
        ({"data": {"k" * 254: "1"}}, {f"data[{'k' * 254}] Invalid"}),
        ({"data": {"a": "1"}, "binaryData": {"a": "eA=="}}, {"data[a] Invalid"}),
        ({"data": {"a": "x" * 2**20}}, set()),
        ({"data": {"a": "x" * 2**20, "b": "y"}}, {"[] TooLong"}),
        ({"data": {"a": "ä" * 2**19, "b": "y"}}, {"[] TooLong"}),
        ({"binaryData": {"a": encoded(2**20)}}, set()),
        ({"binaryData": {"a": encoded(2**20 + 1)}}, {"[] TooLong"}),
    ],
)
def test_config_maps(members, expected):
    assert causes(create(core("ConfigMap", **members))) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"data": {"a": "eA=="}, "stringData": {"b": "x"}}, set()),
        ({"stringData": {"a/b": "x"}}, {"data[a/b] Invalid"}),
        ({"data": {"a": encoded(2**20)}}, set()),
        ({"data": {"a": encoded(2**20)}, "stringData": {"b": "x"}}, {"data TooLong"}),
        ({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}, {"data[tls.key] Required"}),
        ({"type": "kubernetes.io/basic-auth"}, {"data[username] Required", "data[password] Required"}),
        ({"type": "kubernetes.io/basic-auth", "stringData": {"password": "x"}}, set()),
        (
            {"type": "kubernetes.io/service-account-token"},
            {"metadata.annotations[kubernetes.io/service-account.name] Required"},
        ),
    ],
)
def test_secrets(members, expected):
    assert causes(create(core("Secret", **members))) == expected


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_what_is_immutable_stays(kind):
    old = core(kind, data={"a": "eA=="}, immutable=True, **({"type": "Opaque"} if kind == "Secret" else {}))
    assert causes(update(changed(old, {"metadata.labels": {"a": "b"}}), old)) == set()
    assert causes(update(changed(old, {"data": {"b": "eA=="}}), old)) == {"data Forbidden"}
    assert causes(update(changed(old, {"immutable": None}), old)) == {"immutable Forbidden"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"hard": {"pods": "1", "requests.cpu": "1500m", "count/jobs.batch": "2", "hugepages-2Mi": "2Mi"}}, set()),
        ({"hard": {"gpu.deviceclass.resource.k8s.io/devices": "1", "requests.example.com/gpu": "4"}}, set()),
        ({"hard": {"nonsense": "1"}}, {"hard[nonsense] Invalid"}),
        ({"hard": {"a b": "1"}}, {"hard[a b] Invalid"}),
        ({"hard": {"pods": "-1"}}, {"hard[pods] Invalid"}),
        ({"hard": {"pods": "500m"}}, {"hard[pods] Invalid"}),
        ({"hard": {"pods": "1"}, "scopes": ["BestEffort"]}, set()),
        ({"hard": {"requests.cpu": "1"}, "scopes": ["BestEffort"]}, {"scopes Invalid"}),
        ({"hard": {"services": "1"}, "scopes": ["Terminating"]}, {"scopes Invalid"}),
        ({"hard": {"pods": "1"}, "scopes": ["Nowhere"]}, {"scopes Invalid"}),
        ({"hard": {"pods": "1"}, "scopes": ["Terminating", "NotTerminating"]}, {"scopes Invalid"}),
    ],
)
def test_quotas(spec, expected):
    assert {cause.removeprefix("spec.") for cause in causes(create(core("ResourceQuota", spec=spec)))} == expected


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ({"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}, set()),
        ({"scopeName": "PriorityClass", "operator": "In"}, {"values Required"}),
        ({"scopeName": "PriorityClass", "operator": "Exists", "values": ["high"]}, {"values Invalid"}),
        ({"scopeName": "PriorityClass", "operator": "Like"}, {"operator Invalid"}),
        ({"scopeName": "Terminating", "operator": "DoesNotExist"}, {"operator Invalid"}),
        ({"scopeName": "Nowhere", "operator": "Exists"}, {"scopeName Invalid"}),
    ],
)
def test_scope_selectors(requirement, expected):
    spec = {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [requirement]}}
    path = "spec.scopeSelector.matchExpressions."
    assert {cause.removeprefix(path) for cause in causes(create(core("ResourceQuota", spec=spec)))} == expected


def test_scopes_stay():
    old = core("ResourceQuota", spec={"hard": {"pods": "1"}, "scopes": ["BestEffort"]})
    assert causes(update(changed(old, {"spec.scopes": ["NotBestEffort"]}), old)) == {"spec.scopes Invalid"}


def test_nodes():
    taints = [
        {"key": "a", "effect": "NoSchedule"},
        {"key": "a", "effect": "NoSchedule"},
        {"key": "", "effect": "Never"},
    ]
    status = {
        "capacity": {"cpu": "-1", "memory": "1Gi", "example.com/gpu": "500m", "hugepages-2Mi": "0"},
        "allocatable": {"cpu": "-1"},
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": taints}, "status": status}
    assert causes(create(node)) == {
        "metadata.taints[1] Duplicate",
        "metadata.taints[2].key Invalid",
        "metadata.taints[2].effect NotSupported",
        "status.capacity.cpu Invalid",
        "status.capacity.example.com/gpu Invalid",
        "status.allocatable.cpu Invalid",
    }
    good = changed(node, {"spec": {}, "status": {}})
    assert causes(update(changed(good, {"status.allocatable": {"cpu": "-1"}}), good, subresource="status")) == {
        "status.allocatable.cpu Invalid"
    }
    assert causes(update(changed(good, {"spec.taints": taints[2:]}), good)) == {
        "spec.taints[0].key Invalid",
        "spec.taints[0].effect NotSupported",
    }


def with_spec(**spec):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": spec, "status": {}}


def test_ranges_and_provider_of_a_node_are_given_once():
    one, other = "10.244.1.0/24", "10.244.2.0/24"
    assert causes(create(with_spec(podCIDR=one))) == set()
    assert causes(create(with_spec(podCIDR=one, podCIDRs=[one, "fd00::/64"]))) == set()
    assert causes(create(with_spec(podCIDRs=[one, other]))) == {"spec.podCIDRs Invalid"}
    assert causes(create(with_spec(podCIDR="ten"))) == {"spec.podCIDRs[0] Invalid"}
    given = with_spec(podCIDR=one, podCIDRs=[one], providerID="a://1")
    assert causes(update(given, with_spec())) == set()
    assert causes(update(with_spec(podCIDR=other, podCIDRs=[other, one], providerID="a://1"), given)) == {
        "spec.podCIDRs Forbidden"
    }
    assert causes(update(with_spec(podCIDRs=[one], providerID="b://2"), given)) == {"spec.providerID Invalid"}
    assert causes(update(with_spec(podCIDRs=[one]), given)) == {"spec.providerID Invalid"}


TIME = "2026-01-01T00:00:00.000000Z"
NEWER = {"eventTime": TIME, "reportingInstance": "i", "action": "Bind", "reason": "R"}


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"involvedObject": {"namespace": "default"}}, set()),
        ({"involvedObject": {}}, set()),
        ({"involvedObject": {"namespace": "other"}}, {"involvedObject.namespace Invalid"}),
        ({"involvedObject": {"namespace": "default"}, "reportingComponent": "c", **NEWER}, set()),
        (
            {"involvedObject": {"namespace": "default"}, "reportingComponent": "c", **NEWER, "reason": ""},
            {"reason Required"},
        ),
        (
            {"involvedObject": {"namespace": "default"}, **NEWER},
            {"reportingComponent Required", "reportingComponent Invalid"},
        ),
        (
            {"involvedObject": {"namespace": "default"}, "reportingComponent": "c", **NEWER, "message": "x" * 1025},
            {"message Invalid"},
        ),
    ],
)
def test_events(members, expected):
    assert causes(create(core("Event", **members))) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"type": "Normal"}, set()),
        ({}, {"type Invalid"}),
        ({"type": "Normal", "deprecatedCount": 2}, {"count Invalid"}),
        ({"type": "Normal", "series": {"count": 1, "lastObservedTime": TIME}}, {"series.count Invalid"}),
    ],
)
def test_events_of_the_newer_group(members, expected):
    event = core("Event", regarding={"namespace": "default"}, reportingController="c", **NEWER, **members)
    assert causes(create({**event, "apiVersion": "events.k8s.io/v1"})) == expected


def test_an_event_is_about_an_object_of_its_namespace_or_of_the_cluster():
    event = core("Event", involvedObject={"kind": "Node", "name": "n"})
    elsewhere = changed(event, {"metadata.namespace": "other"})
    assert causes(create(elsewhere)) == {"involvedObject.namespace Invalid"}
