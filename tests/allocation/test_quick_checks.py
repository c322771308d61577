"""Counting devices for requests: what is ruled out, what only `allocate` can tell, and how near a node is."""

from dray.allocation import Inventory, allocate, commit
from dray.allocation.quick_checks import FAR, check, distance, fewest_devices, may_fail, most_copies
from dray.testing import objects

CLASSES = [objects.device_class("gpu", 'device.driver == "gpu.example.com"'), objects.device_class("any")]
NODE = objects.node("n")


def inventory(devices=2, held=0):
    names = [f"gpu-{number}" for number in range(devices)]
    found = Inventory(slices=[objects.resource_slice("n", *names, nodeName="n")], classes=CLASSES, claims=[])
    for number in range(held):
        commit(found, allocate(found, NODE, [objects.claim(f"c{number}", objects.request(deviceClassName="gpu"))]))
    return found


def checked(found, *requests):
    return check(found, found.view(NODE), requests)


def gpus(count=1, **members):
    return objects.request(deviceClassName="gpu", count=count, **members)


def either(*alternatives):
    return {"name": "r", "firstAvailable": [{"name": f"a{n}", **each} for n, each in enumerate(alternatives)]}


def test_free_devices_are_counted_for_each_request_alone():
    assert checked(inventory(2), gpus(2)) is True
    assert checked(inventory(2), gpus(3)) is False
    assert checked(inventory(2, held=1), gpus(2)) is False
    assert checked(inventory(2), gpus(2), gpus(2)) is True


def test_one_alternative_that_can_be_served_suffices():
    assert checked(inventory(2), either({"deviceClassName": "gpu", "count": 3}, {"deviceClassName": "gpu"})) is True
    assert checked(inventory(2), either({"deviceClassName": "gpu", "count": 3})) is False


def test_admin_access_and_mode_all_count_devices_that_are_held():
    assert checked(inventory(1, held=1), gpus(adminAccess=True)) is True
    assert checked(inventory(1, held=1), objects.request(deviceClassName="gpu", allocationMode="All")) is True


def test_what_may_end_in_an_error_is_left_to_allocate():
    assert checked(inventory(), objects.request(deviceClassName="missing")) is None
    assert checked(inventory(33), objects.request(deviceClassName="gpu", allocationMode="All")) is None
    selectors = [{"cel": {"expression": "device.attributes['x'].y"}}]
    assert checked(inventory(), gpus(selectors=selectors)) is None


def test_copies_of_requests_that_want_the_same_devices_add_up():
    found = inventory(4, held=1)
    view = found.view(NODE)
    assert most_copies(found, view, [gpus()], 10) == 3
    assert most_copies(found, view, [gpus(), gpus(2)], 10) == 1
    assert most_copies(found, view, [gpus()], 2) == 2
    assert most_copies(found, view, [gpus(adminAccess=True)], 10) == 10


def test_a_node_with_fewer_missing_devices_is_nearer():
    found = inventory(2, held=1)
    view = found.view(NODE)
    assert distance(found, view, [gpus(2)]) < distance(found, view, [gpus(3)])
    assert distance(found, view, [objects.request(deviceClassName="missing")]) == FAR


def test_claims_that_can_fail_whatever_devices_there_are():
    def fails(*requests, **members):
        return may_fail({"devices": {"requests": list(requests), **members}})

    assert not fails(gpus(32))
    assert fails(gpus(20), gpus(13))
    everything = objects.request(deviceClassName="gpu", allocationMode="All")
    assert not fails(everything)
    assert fails(everything, constraints=[{"matchAttribute": "gpu.example.com/numa"}])
    assert not fails(gpus(capacity={"requests": {"memory": "1Gi"}}))
    assert fails(gpus(capacity={"requests": {"memory": "1500m"}}))


def test_the_fewest_devices_of_a_request():
    assert fewest_devices(gpus(3)) == 3
    assert fewest_devices(gpus(3, adminAccess=True)) == 0
    assert fewest_devices(either({"count": 4}, {"allocationMode": "All"})) == 2


def test_shared_devices_with_too_little_capacity_left_are_ruled_out():
    def share(milli, count=1):
        return gpus(count, capacity={"requests": {"milli": str(milli)}})

    device = {"allowMultipleAllocations": True, "capacity": {"milli": {"value": "1000"}}}
    devices = [{"name": f"gpu-{number}", **device} for number in range(2)]
    found = Inventory(slices=[objects.resource_slice("n", *devices, nodeName="n")], classes=CLASSES, claims=[])
    commit(found, allocate(found, NODE, [objects.claim("first", share(600))]))
    assert checked(found, share(400, count=2)) is True
    assert checked(found, share(401, count=2)) is False
    assert checked(found, share(1000)) is True
    commit(found, allocate(found, NODE, [objects.claim("second", share(1000))]))
    assert checked(found, share(401)) is False
