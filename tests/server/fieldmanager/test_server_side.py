"""What the stories cannot tell: times, versions, many managers, clients that edit managed fields, kubectl's past."""

import json
from typing import Any

import pytest

from dray.api import catalogue
from dray.server.fieldmanager import server_side, tracking
from dray.server.fieldmanager.tracked_kinds import built_in
from dray.server.status import ApiError

from .telling import NOW, Told

LATER = "2026-01-01T00:00:09Z"


def config_map() -> Told:
    return Told("v1", "ConfigMap")


def managers(told: Told) -> list[tuple[str, str]]:
    assert told.live is not None
    return [(entry["manager"], entry["time"]) for entry in told.live["metadata"]["managedFields"]]


def test_what_changes_nothing_keeps_its_time() -> None:
    told = config_map()
    first = told.apply({"data": {"a": "1"}}, "one")
    assert told.apply({"data": {"a": "1"}}, "one", now=LATER) == first
    told.apply({"data": {"a": "2"}}, "one", now=LATER)
    assert managers(told) == [("one", LATER)]


def test_entries_stand_in_the_order_of_operation_time_and_name() -> None:
    told = config_map()
    told.apply({"data": {"b": "1"}}, "b")
    told.apply({"data": {"a": "1"}}, "a", now=LATER)
    told.apply({"data": {"c": "1"}}, "c")
    told.update({"data": {"a": "1", "b": "1", "c": "1", "d": "1"}}, "a")
    assert managers(told) == [("b", NOW), ("c", NOW), ("a", LATER), ("a", NOW)]


def test_no_more_than_ten_updaters() -> None:
    told = config_map()
    data: dict[str, str] = {}
    for index in range(12):
        data[f"k{index:02}"] = "x"
        told.update({"data": data}, f"m{index:02}", now=f"2026-01-01T00:00:{index:02}Z")
    names = [name for name, _ in managers(told)]
    assert names == ["ancient-changes", *(f"m{index:02}" for index in range(3, 12))]
    ancient = told.fields["ancient-changes/Update"]["f:data"]
    assert set(ancient) == {".", "f:k00", "f:k01", "f:k02"}


def test_versions_are_told_apart_and_converted() -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    new = Told("resource.k8s.io/v1", "ResourceClaim")
    new.update({"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": [request]}}}, "v1-client")
    old = Told("resource.k8s.io/v1beta1", "ResourceClaim")
    old.live = new.live
    same = {"name": "gpu", "deviceClassName": "gpu"}
    old.apply({"metadata": {"labels": {"c": "d"}}, "spec": {"devices": {"requests": [same]}}}, "old-client")
    assert old.live is not None
    versions = {entry["manager"]: entry["apiVersion"] for entry in old.live["metadata"]["managedFields"]}
    assert versions == {"v1-client": "resource.k8s.io/v1", "old-client": "resource.k8s.io/v1beta1"}
    with pytest.raises(ApiError) as refused:
        old.apply({"spec": {"devices": {"requests": [{**same, "count": 2}]}}}, "old-client")
    assert 'conflict with "v1-client" using resource.k8s.io/v1' in refused.value.message


def test_the_version_must_be_that_of_the_request() -> None:
    told = config_map()
    with pytest.raises(ApiError) as refused:
        server_side.apply(None, {"apiVersion": "v2", "kind": "ConfigMap"}, "one", kind=told.kind, now=NOW)
    assert refused.value.code == 400


def test_a_client_may_edit_managed_fields_but_not_lose_them() -> None:
    told = config_map()
    told.apply({"data": {"a": "1"}}, "one")
    told.update({"data": {"a": "1"}}, "editor")
    assert list(told.fields) == ["one/Apply"]
    assert told.live is not None
    entry = {**told.live["metadata"]["managedFields"][0], "manager": "renamed"}
    told.update({"data": {"a": "1"}, "metadata": {"managedFields": [entry]}}, "editor")
    assert list(told.fields) == ["renamed/Apply"]
    told.update({"data": {"a": "1"}, "metadata": {"managedFields": [{"manager": "x"}]}}, "editor")
    assert list(told.fields) == ["renamed/Apply"]
    told.update({"data": {"a": "2"}, "metadata": {"managedFields": [{}]}}, "editor")
    assert told.fields == {}


def test_kubectl_may_take_over_what_it_applied_from_the_client() -> None:
    told = config_map()
    last = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1", "b": "1"}}
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(last)}
    told.update({"data": {"a": "1", "b": "1"}, "metadata": {"annotations": annotation}}, "kubectl-client-side-apply")
    with pytest.raises(ApiError):
        told.apply({"data": {"a": "2"}}, "other")
    live = told.apply({"data": {"a": "2", "b": "1"}}, "kubectl")
    followed = json.loads(live["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"])
    assert followed["data"] == {"a": "2", "b": "1"}
    told.update({**live, "data": {"a": "9", "b": "1"}}, "editor")
    with pytest.raises(ApiError) as refused:
        told.apply({"data": {"a": "2", "b": "2"}}, "kubectl")
    assert [cause["field"] for cause in refused.value.details["causes"]] == [".data.a"]


@pytest.mark.parametrize(
    ("given", "agent", "name"),
    [
        ("me", "kubectl/v1.37", "me"),
        ("", "kubectl/v1.37 (linux)", "kubectl"),
        ("", "Go-http-client", "Go-http-client"),
        ("", "a\x00b/1", "ab"),
        ("", "x" * 200, "x" * 128),
    ],
)
def test_manager_name(given: str, agent: str, name: str) -> None:
    assert server_side.manager_name(given, agent) == name


def test_times_alone_are_no_change() -> None:
    def at(time: str, data: str) -> dict[str, Any]:
        return {"metadata": {"managedFields": [{"manager": "m", "time": time}]}, "data": data}

    assert tracking.settle_times(at(NOW, "x"), at(LATER, "x")) == at(NOW, "x")
    assert tracking.settle_times(at(NOW, "x"), at(LATER, "y")) == at(LATER, "y")


def test_what_a_pod_is_created_with() -> None:
    target = catalogue.find("v1", "Pod")
    assert target is not None
    containers = [{"name": "m", "image": "i", "resources": {}, "env": [{"name": "A", "value": "1"}]}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
    [entry] = server_side.track_update(None, pod, "kubectl-run", kind=built_in(target), now=NOW)
    env = {".": {}, 'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}}
    container = {".": {}, "f:env": env, "f:image": {}, "f:name": {}, "f:resources": {}}
    assert entry == {
        "manager": "kubectl-run",
        "operation": "Update",
        "apiVersion": "v1",
        "time": NOW,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:containers": {'k:{"name":"m"}': container}}},
    }


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        ({"dara": {}}, ".dara: field not declared in schema"),
        (
            {"metadata": {"name": "x", "namespace": "default", "ownerReferences": [{"name": "o"}]}},
            ".metadata.ownerReferences: element 0: associative list with keys has an element that omits all key fields "
            '["uid"] (and doesn\'t have default values for any key fields)',
        ),
    ],
)
def test_what_does_not_fit_is_told_in_the_words_of_kubernetes(configuration: Any, said: str) -> None:
    told = config_map()
    with pytest.raises(ApiError) as refused:
        told.apply({"metadata": {"name": "x", "namespace": "default"}, **configuration}, "one")
    expected = f"failed to create typed patch object (default/x; /v1, Kind=ConfigMap): {said}"
    assert (refused.value.code, refused.value.message) == (400, expected)
