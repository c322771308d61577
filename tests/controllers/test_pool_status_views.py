from datetime import UTC, datetime, timedelta

import pytest

from dray.allocation.slices import Slice
from dray.allocation.usage import Usage
from dray.client.clock import timestamp
from dray.controllers.pool_status import counting, views
from dray.controllers.pool_status.controller import is_expired
from dray.controllers.pool_status.views import ViewError
from tests.controllers.devices import DRIVER, resource_slice, result

PROFILE = f"{DRIVER}/profile"
SHAPE = f"{DRIVER}/shape"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def card(name="card", memory="80Gi"):
    return {"name": name, "counters": {"memory": {"value": memory}}}


def part(name, memory="40Gi", counter_set="card", **attributes):
    draws = [{"counterSet": counter_set, "counters": {"memory": {"value": memory}}}]
    return {
        "name": name,
        "attributes": {key: {"string": value} for key, value in attributes.items()},
        "consumesCounters": draws,
    }


def pool(*devices, attribute=PROFILE, sets=None):
    declared = {"partitionTypeAttribute": attribute} if attribute else {}
    counters = Slice(resource_slice("counters", count=2, sharedCounters=[card()] if sets is None else sets))
    return [counters, Slice(resource_slice("devices", *devices, count=2, **declared))]


def held(*devices, **more):
    usage = Usage()
    for device in devices:
        usage.hold(("default", device), [result(device, **more)])
    return usage


def told(summary):
    return [(each["attribute"], each["type"], each["total"], each["allocatable"]) for each in summary]


def test_what_is_left_depends_on_what_is_used():
    devices = [part("full", "80Gi", profile="full"), part("a", profile="half"), part("b", profile="half")]
    assert told(views.partitions(pool(*devices), held(), "")) == [(PROFILE, "full", 1, 1), (PROFILE, "half", 2, 2)]
    assert told(views.partitions(pool(*devices), held("a"), "")) == [(PROFILE, "full", 1, 0), (PROFILE, "half", 2, 1)]
    assert told(views.partitions(pool(*devices), held("full"), "")) == [
        (PROFILE, "full", 1, 0),
        (PROFILE, "half", 2, 0),
    ]


def test_a_slice_names_the_attribute_or_the_request_does():
    both = part("a", profile="half", shape="small")
    assert told(views.partitions(pool(both), held(), SHAPE)) == [(PROFILE, "half", 1, 1)]
    assert told(views.partitions(pool(both, attribute=""), held(), SHAPE)) == [(SHAPE, "small", 1, 1)]
    assert views.partitions(pool(both, attribute=""), held(), "") is None
    # One slice that names an attribute is enough for the request's not to count.
    other = Slice(resource_slice("other", part("b", shape="small")))
    assert told(views.partitions([*pool(both), other], held(), SHAPE)) == [(PROFILE, "half", 1, 1)]


def test_whole_devices_are_no_partitions():
    devices = [part("a", profile="half"), {"name": "whole"}]
    assert told(views.partitions(pool(*devices), held(), "")) == [(PROFILE, "half", 1, 1)]


@pytest.mark.parametrize(
    ("devices", "sets", "problem"),
    [
        (
            [part("a")],
            None,
            f'PartitionTypeMissing: device "a" in pool {DRIVER}/pool does not carry '
            f'partition type attribute "{PROFILE}"',
        ),
        (
            [part("a", profile="half")],
            [],
            f"PartitionTypeMissing: pool {DRIVER}/pool declares partitionTypeAttribute but publishes no sharedCounters",
        ),
        (
            [part("a", profile="half"), part("b", "41Gi", profile="half")],
            None,
            f'PartitionCostMismatch: devices of partition type "half" in pool {DRIVER}/pool consume different counters',
        ),
        (
            [part(f"d{number}", "1", profile=f"p{number}") for number in range(33)],
            None,
            f"PartitionSummaryOverCap: pool {DRIVER}/pool has 33 partition types, exceeding the maximum of 32",
        ),
    ],
)
def test_why_partitions_cannot_be_told(devices, sets, problem):
    with pytest.raises(ViewError) as error:
        views.partitions(pool(*devices, sets=sets), held(), "")
    assert str(error.value) == problem
    status = counting.pool_status(pool(*devices, sets=sets), held(), "")
    assert status["validationError"] == problem[:256]
    assert status["totalDevices"] == len(devices)
    assert "partitionSummary" not in status


def test_counters_that_do_not_add_up_allocate_nothing():
    lost = pool(part("a", profile="half", counter_set="elsewhere"))
    assert told(views.partitions(lost, held("b"), "")) == [(PROFILE, "half", 1, 0)]


def test_shared_capacity_is_never_less_than_nothing():
    shared = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
    slices = [Slice(resource_slice("s", {"name": "a", **shared}))]
    usage = held("a", shareID="s", consumedCapacity={"memory": "11Gi"})
    assert views.shareable(slices, usage) == {
        "fullyAvailableDevices": 0,
        "partiallyAvailableDevices": 1,
        "capacity": [{"name": "memory", "total": "10Gi", "consumed": "11Gi", "available": "0"}],
    }
    assert views.shareable([Slice(resource_slice("s", "a"))], held()) is None


def test_too_many_shared_capacities_are_not_told_but_partitions_go_too():
    capacity = {f"c{number}": {"value": "1"} for number in range(33)}
    device = {**part("a", profile="half"), "allowMultipleAllocations": True, "capacity": capacity}
    status = counting.pool_status(pool(device), held(), "")
    assert status["validationError"] == (
        f"ShareableSummaryOverCap: pool {DRIVER}/pool has 33 shareable capacity keys, exceeding the maximum of 32"
    )
    assert not {"partitionSummary", "shareableSummary"} & status.keys()


def test_an_incomplete_pool_has_no_numbers():
    (only,) = [Slice(resource_slice("s", "a", count=3, generation=7))]
    status = counting.pool_status([only], held(), "")
    assert status == {
        "driver": DRIVER,
        "poolName": "pool",
        "generation": 7,
        "validationError": (f"PoolIncomplete: pool {DRIVER}/pool is incomplete: observed 1/3 slices at generation 7"),
    }
    assert counting.is_incomplete(status)
    message = counting.complete([status], 1, NOW)["conditions"][0]["message"]
    assert message == "Calculated status for 1 pools (1 incomplete)"


def test_a_failure_is_told():
    status = counting.failed("why", NOW)
    assert status["poolCount"] == 0
    assert status["conditions"][0] == {
        "type": "Failed",
        "status": "True",
        "reason": "CalculationFailed",
        "message": "why",
        "lastTransitionTime": timestamp(NOW),
    }


@pytest.mark.parametrize(
    ("status", "hours", "expired"),
    [
        (None, 23.9, False),
        (None, 24.1, True),
        ({"conditions": [{"type": "Complete", "lastTransitionTime": timestamp(NOW)}]}, 0.9, False),
        ({"conditions": [{"type": "Failed", "lastTransitionTime": timestamp(NOW)}]}, 1.1, True),
        ({}, 1.1, True),
        ({}, 0.9, False),
    ],
)
def test_how_long_requests_are_kept(status, hours, expired):
    request = {"metadata": {"creationTimestamp": timestamp(NOW)}, **({"status": status} if status is not None else {})}
    assert is_expired(request, NOW + timedelta(hours=hours)) is expired
