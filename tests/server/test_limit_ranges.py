"""LimitRanges fill in what containers lack and refuse what is out of bounds."""

import pytest

from dray.api import limit_ranges
from dray.api.quota import charges, scopes
from tests.server.api import PODS, pod

RANGES = "/api/v1/namespaces/default/limitranges"


def limit(api, *items):
    return api.create(RANGES, {"metadata": {"name": "l"}, "spec": {"limits": list(items)}})


def sized(name, requests=None, limits=None):
    resources = {"requests": requests or {}, "limits": limits or {}}
    return pod(name, containers=[{"name": "main", "image": "x", "resources": resources}])


def test_containers_get_what_they_lack(api):
    made = limit(api, {"type": "Container", "max": {"cpu": "2"}, "defaultRequest": {"memory": "64Mi"}})
    assert made["spec"]["limits"][0]["default"] == {"cpu": "2"}
    assert made["spec"]["limits"][0]["defaultRequest"] == {"cpu": "2", "memory": "64Mi"}
    stored = api.create(PODS, sized("p", {"cpu": "1"}))
    assert stored["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "memory": "64Mi"},
        "limits": {"cpu": "2"},
    }
    assert stored["status"]["qosClass"] == "Burstable"
    note = "LimitRanger plugin set: memory request for container main; cpu limit for container main"
    assert stored["metadata"]["annotations"] == {"kubernetes.io/limit-ranger": note}


@pytest.mark.parametrize(
    ("item", "requests", "limits", "message"),
    [
        ({"min": {"cpu": "1"}}, {"cpu": "500m"}, None, "minimum cpu usage per Container is 1, but request is 500m"),
        ({"max": {"cpu": "1"}}, None, {"cpu": "2"}, "maximum cpu usage per Container is 1, but limit is 2"),
        (
            {"maxLimitRequestRatio": {"memory": "2"}},
            {"memory": "1Gi"},
            {"memory": "3Gi"},
            "memory max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            {"type": "Pod", "max": {"memory": "1Gi"}},
            None,
            None,
            "maximum memory usage per Pod is 1Gi.  No limit is specified",
        ),
    ],
)
def test_what_is_out_of_bounds_is_refused(api, item, requests, limits, message):
    limit(api, {"type": "Container", **item})
    code, answer = api.ask("POST", PODS, sized("p", requests, limits))
    assert (code, answer["message"]) == (403, f'pods "p" is forbidden: {message}')


def test_a_resize_keeps_within_bounds(api):
    limit(api, {"type": "Container", "max": {"cpu": "2"}})
    api.create(PODS, sized("p", {"cpu": "1"}, {"cpu": "2"}))
    larger = sized("p", {"cpu": "1"}, {"cpu": "3"})["spec"]["containers"]
    patch = {"spec": {"containers": larger}}
    kind = "application/strategic-merge-patch+json"
    code, answer = api.ask("PATCH", f"{PODS}/p/resize", patch, content_type=kind)
    assert code == 403
    assert "maximum cpu usage per Container is 2, but limit is 3" in answer["message"]


def test_bounds_must_leave_room(api):
    items = [
        {"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}, "default": {"cpu": "1"}},
        {"type": "Pod", "maxLimitRequestRatio": {"cpu": "500m"}},
        {"type": "PersistentVolumeClaim"},
        {"type": "Foo"},
    ]
    code, _, fields = api.refusal("POST", RANGES, {"metadata": {"name": "l"}, "spec": {"limits": items}})
    assert code == 422
    assert [field.removeprefix("spec.limits") for field in fields] == [
        "[0].default",
        "[0].min[cpu]",
        "[0].default[cpu]",
        "[1].type",
        "[1].maxLimitRequestRatio[cpu]",
        "[2].limits",
        "[3].type",
    ]


def volume(size, **spec):
    return {
        "metadata": {"name": "v", "namespace": "default"},
        "spec": {"resources": {"requests": {"storage": size}}, **spec},
    }


def test_volume_claims_have_bounds():
    item = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}}
    ranges = [{"spec": {"limits": [item]}}]
    assert limit_ranges.broken_by_volume(volume("2Gi"), ranges) == []
    said = "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 10Gi"
    assert limit_ranges.broken_by_volume(volume("10Gi"), ranges) == [said]


def test_volume_claims_count_by_storage_class_and_attributes():
    claim = volume("2Gi", storageClassName="gold", volumeAttributesClassName="fast")
    taken = charges.of_volume(claim)
    assert charges.text("requests.storage", taken["requests.storage"]) == "2Gi"
    assert taken["gold.storageclass.storage.k8s.io/persistentvolumeclaims"] == charges.UNIT
    requirement = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["fast"]}
    quota = {"spec": {"scopeSelector": {"matchExpressions": [requirement]}}}
    assert scopes.covers(quota, scopes.scoped_volume(claim))
    assert not scopes.covers(quota, scopes.scoped_volume(volume("1Gi")))
    assert not scopes.covers(quota, None)
