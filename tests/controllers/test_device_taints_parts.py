from datetime import UTC, datetime, timedelta

import pytest

from dray.controllers.device_taints import evictions, rule_status, rules
from dray.controllers.device_taints.evictions import by_rule, by_slice
from dray.controllers.device_taints.lookup import uses
from dray.controllers.device_taints.rule_status import Impact
from dray.controllers.device_taints.tainted import TaintedDevices
from tests.controllers.devices import DRIVER, resource_slice, result, rule, taint

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
D0 = (DRIVER, "pool", "d0")
D1 = (DRIVER, "pool", "d1")


def allocated(*results):
    return {"status": {"allocation": {"devices": {"results": list(results)}}}}


def broken(device, **of_taint):
    return {"name": device, "taints": [taint(effect="NoSchedule"), taint(**of_taint)]}


def test_the_earliest_time_and_every_reason():
    at = {
        D0: [(by_slice(D0, 1), taint(at=NOON))],
        D1: [
            (by_slice(D1, 0), taint(at=NOON, key="tolerated")),
            (by_rule(rule("b")), taint(at=NOON + timedelta(seconds=5))),
            (by_rule(rule("a")), taint(at=NOON - timedelta(seconds=5))),
        ],
    }
    patient = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}]
    content = [{"operator": "Exists", "effect": "NoExecute", "key": "tolerated"}]
    claim = allocated(result("d0", tolerations=patient), result("d1", tolerations=content))
    eviction = evictions.claim_eviction(claim, lambda device: at[device])
    assert eviction.when == NOON - timedelta(seconds=5)
    assert eviction.reasons == (by_rule(rule("a")), by_rule(rule("b")), by_slice(D0, 1))
    assert eviction.rules == {"a", "b"}
    alone = evictions.claim_eviction(allocated(result("d0", tolerations=patient)), lambda device: at[device])
    assert alone.when == NOON + timedelta(seconds=10)
    assert evictions.merged([alone, eviction]) == eviction
    assert evictions.merged([]) is None


def test_without_a_time_nothing_begins():
    assert evictions.claim_eviction(allocated(result("d0")), lambda _: [(by_slice(D0, 0), taint())]) is None


def test_slices_of_the_newest_generation_taint():
    tainted = TaintedDevices()
    assert tainted.put(resource_slice("plain", "d0", "d1")) == []
    assert not tainted
    assert tainted.put(resource_slice("s", broken("d0"), {"name": "d1", "taints": [taint(effect="None")]})) == [D0]
    assert tainted.taints(D0) == ((1, taint()),)
    assert tainted.taints(D1) == ()
    # The same again is no change, another value is.
    assert tainted.put(resource_slice("s", broken("d0"))) == []
    assert tainted.put(resource_slice("s", broken("d0", value="v"))) == [D0]
    assert tainted.put(resource_slice("new", broken("d1"), generation=2)) == [D0, D1]
    assert tainted.taints(D0) == ()
    assert tainted.put(resource_slice("elsewhere", "d0", pool="other", generation=7)) == []
    assert tainted.remove(resource_slice("new", broken("d1"), generation=2)) == [D1, D0]
    assert tainted.taints(D0) == ((1, taint(value="v")),)
    assert tainted.remove(resource_slice("s", broken("d0"))) == [D0]
    assert tainted.remove(resource_slice("unknown", pool="nowhere")) == []
    assert not tainted


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, False),
        ({}, True),
        ({"driver": DRIVER}, True),
        ({"driver": DRIVER, "pool": "pool", "device": "d0"}, True),
        ({"driver": DRIVER, "pool": "other"}, False),
        # Of an early alpha: what cannot be judged here must not widen the rule.
        ({"driver": DRIVER, "deviceClassName": "gpu"}, False),
        ({"selectors": [{"cel": {"expression": "false"}}]}, False),
        ({"selectors": [], "deviceClassName": None}, True),
    ],
)
def test_what_a_rule_selects(selector, selected):
    assert rules.selects(rule("r", selector), D0) is selected


@pytest.mark.parametrize(
    ("effect", "impact", "evicted", "status", "reason", "message"),
    [
        (
            "NoExecute",
            Impact(pods=1, namespaces=1),
            0,
            "True",
            "PodsPendingEviction",
            "1 pod needs to be evicted in 1 namespace.",
        ),
        (
            "NoExecute",
            Impact(pods=3, namespaces=2),
            1,
            "True",
            "PodsPendingEviction",
            "3 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller.",
        ),
        ("NoExecute", Impact(), 0, "False", "NotStarted", ""),
        ("NoExecute", Impact(), 2, "False", "Completed", "2 pods evicted since starting the controller."),
        ("NoSchedule", Impact(), 0, "False", "OtherEffect", "Eviction only happens for the NoExecute effect."),
        (
            "None",
            Impact(pods=0, namespaces=0, published=1, allocated=2),
            0,
            "False",
            "NoEffect",
            "1 published device selected. 2 allocated devices selected. 0 pods would be evicted in "
            "0 different namespaces if the effect was NoExecute. This information will not be updated again. "
            "Recreate the DeviceTaintRule to trigger an update.",
        ),
    ],
)
def test_what_the_condition_says(effect, impact, evicted, status, reason, message):
    assert rule_status.condition(rule("r", {}, effect=effect), impact, evicted) == {
        "type": "EvictionInProgress",
        "status": status,
        "reason": reason,
        "message": message,
    }


def test_claims_of_a_group_are_the_pods_too():
    pod = {
        "metadata": {"name": "p", "namespace": "default", "uid": "1"},
        "spec": {
            "schedulingGroup": {"podGroupName": "g"},
            "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
        },
        "status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "g-c"}]},
    }
    owner = {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "PodGroup", "name": "g", "uid": "2"}
    reserved = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "2"}
    claim = {
        "metadata": {"name": "g-c", "namespace": "default", "ownerReferences": [{**owner, "controller": True}]},
        "status": {"reservedFor": [reserved]},
    }
    assert uses(pod, claim)
    assert not uses({**pod, "spec": {**pod["spec"], "schedulingGroup": None}}, claim)
    assert not uses(pod, {**claim, "status": {"reservedFor": [{**reserved, "name": "h"}]}})
    assert not uses(pod, {**claim, "metadata": {**claim["metadata"], "namespace": "other"}})
