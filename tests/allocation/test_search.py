"""The order of the search and its odd corners, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from dray.allocation import Allocation, Inventory, Rejection, RejectionKind, allocate
from dray.allocation.work import Work
from dray.api.objects import Object
from tests.allocation.claims import claim, classes, everything, exactly, holding, node, request
from tests.allocation.devices import DRIVER, ROOT, consumes, counter_slice, device, resource_slice


def ask(slices: list[Object], claims: list[Object], allocated: list[Object] | None = None, **options: Any) -> Any:
    inventory = Inventory(slices=slices, classes=classes(), claims=allocated or ())
    return allocate(inventory, node(), claims, **options)


def names(answer: Any) -> list[str]:
    assert isinstance(answer, Allocation), answer
    return [each["device"] for result in answer.results for each in result["devices"].get("results", ())]


def one(*ways: Object, **more: Any) -> list[Object]:
    return [claim("a", request("r", *ways), **more)]


def devices(*titles: str, **values: Any) -> list[Object]:
    return [device(title, **values) for title in titles]


def test_devices_keep_the_order_of_publication() -> None:
    assert names(ask([resource_slice(devices("z", "a"))], one(exactly()))) == ["z"]


def test_slices_are_ordered_by_the_bytes_of_their_names() -> None:
    slices = [
        resource_slice(devices("nine"), name="s9", count=2),
        resource_slice(devices("ten"), name="s10", count=2),
    ]
    assert names(ask(slices, one(exactly()))) == ["ten"]


def test_no_claims_and_empty_claims_are_served() -> None:
    assert ask([], []) == Allocation("n", (), ())
    assert names(ask([], [claim("a")])) == []


def test_more_than_32_devices_are_refused() -> None:
    answer = ask([resource_slice(devices("a"))], one(exactly(33)))
    assert answer.kind is RejectionKind.FAULT
    assert "number of requested devices 33 exceeds the claim limit of 32" in answer.message


def test_an_alternative_that_would_exceed_32_devices_is_passed_over() -> None:
    slices = [resource_slice([device(f"d{number:02d}") for number in range(60)])]
    wanted = [claim("a", request("r", exactly(20), exactly(2)), request("s", exactly(30)))]
    answer = ask(slices, wanted)
    assert {each["request"] for each in answer.results[0]["devices"]["results"]} == {"r/b", "s"}


def test_an_unknown_class_is_a_fault() -> None:
    answer = ask([], one(exactly(of="zzz")))
    assert (answer.kind, answer.message) == (
        RejectionKind.FAULT,
        "claim default/a, request r: could not retrieve device class zzz",
    )


SELECTOR = f'device.attributes["{DRIVER}"].x'


def test_a_fault_counts_only_where_the_search_gets_to_it() -> None:
    good, bad = device("ok", x=True), device("bad")
    assert names(ask([resource_slice([good, bad])], one(exactly(1, SELECTOR)))) == ["ok"]
    answer = ask([resource_slice([bad, good])], one(exactly(1, SELECTOR)))
    assert answer.kind is RejectionKind.FAULT
    assert "no such key: x" in answer.message
    assert names(ask([resource_slice([bad, good])], one(exactly(1, SELECTOR)), [holding("o", "bad")])) == ["ok"]


def test_a_constraint_on_an_attribute_nobody_has_refuses_the_first_device_too() -> None:
    answer = ask(
        [resource_slice(devices("a"))], one(exactly(), constraints=[{"distinctAttribute": f"{DRIVER}/nothing"}])
    )
    assert answer.kind is RejectionKind.NO_SOLUTION


def shareable(name: str, memory: Any = None) -> Object:
    made = {**device(name), "allowMultipleAllocations": True}
    return {**made, "capacity": {"memory": memory}} if memory else made


def test_a_shareable_device_serves_a_request_once_and_several_requests() -> None:
    slices = [resource_slice([shareable("s")])]
    assert ask(slices, one(exactly(2))).kind is RejectionKind.NO_SOLUTION
    answer = ask(slices, [claim("a", request("r", exactly()), request("s", exactly()))])
    assert names(answer) == ["s", "s"]
    first, second = (each["shareID"] for each in answer.results[0]["devices"]["results"])
    assert first != second


MEMORY = {"value": "4", "requestPolicy": {"default": "1", "validValues": ["1", "2", "4"]}}


def wants(amount: int) -> Object:
    return exactly(capacity={"requests": {"memory": str(amount)}})


def test_capacity_of_a_dedicated_device_is_a_filter() -> None:
    slices = [resource_slice([device("d", capacity={"memory": MEMORY})])]
    answer = ask(slices, one(wants(3)))
    assert names(answer) == ["d"]
    assert "consumedCapacity" not in answer.results[0]["devices"]["results"][0]
    assert ask(slices, one(wants(5))).kind is RejectionKind.NO_SOLUTION


def test_capacity_of_a_shared_device_is_used_up() -> None:
    slices = [resource_slice([shareable("s", MEMORY)])]
    small = claim("b", request("r", exactly()))
    assert ask(slices, [*one(wants(3)), small]).kind is RejectionKind.NO_SOLUTION
    answer = ask(slices, [*one(wants(2)), small])
    assert [each["devices"]["results"][0]["consumedCapacity"] for each in answer.results] == [
        {"memory": "2"},
        {"memory": "1"},
    ]


def test_admin_access_takes_what_others_have_but_blocks_those_after_it() -> None:
    slices = [resource_slice(devices("d"))]
    normal, admin = claim("n", request("r", exactly())), claim("a", request("r", exactly(adminAccess=True)))
    assert names(ask(slices, [normal, admin])) == ["d", "d"]
    assert ask(slices, [admin, normal]).kind is RejectionKind.NO_SOLUTION
    both = claim("b", request("r", exactly()), request("s", exactly(adminAccess=True)))
    assert ask(slices, [both]).kind is RejectionKind.NO_SOLUTION
    assert names(ask(slices, [admin], [holding("o", "d")])) == ["d"]


def partition(name: str, memory: str) -> Object:
    return {**device(name), "consumesCounters": [consumes("card", memory=memory)]}


def test_admin_access_does_not_pass_over_counters() -> None:
    slices = [resource_slice([partition("p", "1")], count=2), counter_slice({"card": {"memory": "1"}}, count=2)]
    answer = ask(slices, one(exactly(adminAccess=True)), [holding("o", "p")])
    assert answer.kind is RejectionKind.NO_SOLUTION


def test_the_expensive_partition_is_left_out() -> None:
    parts = [partition(f"p{number}", "20" if number == 0 else "10") for number in range(8)]
    slices = [resource_slice(parts, count=2), counter_slice({"card": {"memory": "70"}}, count=2)]
    assert names(ask(slices, one(exactly(7)))) == [f"p{number}" for number in range(1, 8)]


def test_a_request_gives_way_to_a_later_one() -> None:
    slices = [resource_slice([device(f"d{number}", index=number) for number in (1, 2, 3)])]
    only_first = exactly(1, f'device.attributes["{DRIVER}"].index == 1')
    answer = ask(slices, [claim("a", request("r", exactly(2)), request("s", only_first))])
    assert names(answer) == ["d2", "d3", "d1"]


def test_requests_follow_the_first_value_that_serves_all() -> None:
    slices = [resource_slice([device(f"d{number}", root="ab"[number % 2]) for number in range(10)])]
    requests = [request(f"r{number}", exactly()) for number in range(5)]
    answer = ask(slices, [claim("a", *requests, constraints=[{"matchAttribute": ROOT}])])
    assert names(answer) == ["d0", "d2", "d4", "d6", "d8"]


def test_all_takes_every_device_or_none() -> None:
    slices = [resource_slice(devices("a", "b"))]
    assert names(ask(slices, one(everything()))) == ["a", "b"]
    assert ask(slices, one(everything()), [holding("o", "b")]).kind is RejectionKind.NO_SOLUTION
    assert ask([], one(everything())).kind is RejectionKind.NO_SOLUTION


def test_all_ends_the_attempt_where_a_pool_is_unfinished() -> None:
    unfinished = resource_slice(devices("a"), count=2)
    fine = resource_slice(devices("b"), name="other", pool="q")
    answer = ask([unfinished, fine], one(everything()))
    assert answer.kind is RejectionKind.FAULT
    assert answer.message.endswith(f"resource pool {DRIVER}/n is currently being updated")
    assert names(ask([unfinished, fine], one(exactly()))) == ["b"]


def test_invalid_pools_are_passed_over_and_named() -> None:
    twice = resource_slice(devices("a", "a"))
    answer = ask([twice], one(exactly()))
    assert (answer.kind, answer.message) == (RejectionKind.INVALID_POOLS, "invalid resource pools were encountered")
    assert answer.pools[0].problem == "duplicate device name a"
    fine = resource_slice(devices("b"), name="other", pool="q")
    assert names(ask([twice, fine], one(exactly()))) == ["b"]


def test_the_search_stops_at_its_limit_and_says_so() -> None:
    slices = [resource_slice([device(f"d{number}") for number in range(8)])]
    work = Work(550)
    answer = ask(slices, one(exactly(8)), work=work)
    assert isinstance(answer, Rejection)
    assert answer.kind is RejectionKind.UNDECIDED
    assert answer.message == f"undecided after {work.spent} units of work"
    assert 550 < work.spent < 600


@pytest.mark.parametrize("count", [12, 31])
def test_one_more_than_there_are_costs_no_more_than_there_are(count: int) -> None:
    slices = [resource_slice([device(f"d{number}") for number in range(count)])]
    answer = ask(slices, one(exactly(count + 1)), explain=False)
    assert answer.kind is RejectionKind.NO_SOLUTION
    assert answer.work <= 2000 + 20 * count


def test_many_claims_need_no_deep_recursion() -> None:
    slices = [
        resource_slice([device(f"d{part}-{number}") for number in range(100)], name=f"s{part}", count=20)
        for part in range(20)
    ]
    claims = [claim(f"c{number}", request("r", exactly(32))) for number in range(60)]
    assert len(names(ask(slices, claims))) == 60 * 32
