"""What must hold for any input, against an oracle that shares no code with the allocator."""

from __future__ import annotations

import copy
import random

import pytest

from dray.allocation import PACK, Allocation, Inventory, Rejection, RejectionKind, allocate, commit
from dray.allocation import search as search_module
from dray.allocation.work import Work
from tests.allocation import oracle
from tests.allocation.scenarios import Scenario, larger_scenario, partitioned_scenario, random_scenario

BATCHES = range(8)
SIZE = 150


def inventory_of(scenario: Scenario) -> Inventory:
    return Inventory(slices=scenario.slices, classes=scenario.classes, claims=scenario.allocated)


def scenarios(batch: int) -> list[Scenario]:
    return [random_scenario(random.Random(batch * SIZE + number)) for number in range(SIZE)]


def picked(answer: Allocation) -> list[tuple[str, str]]:
    return [
        (each["request"], each["device"]) for result in answer.results for each in result["devices"].get("results", ())
    ]


@pytest.mark.parametrize("batch", BATCHES)
def test_the_first_solution_or_none_as_the_oracle_says(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "_PATIENCE", 1)
    monkeypatch.setattr(search_module, "_MORE_PATIENCE", 2)
    monkeypatch.setattr(search_module, "_LONG_PATIENCE", 3)
    compared = 0
    for scenario in scenarios(batch):
        answer = allocate(inventory_of(scenario), scenario.node, scenario.claims)
        try:
            expected = oracle.Oracle(scenario).solve()
        except oracle.TooMuch:
            continue
        compared += 1
        if isinstance(answer, Allocation):
            assert picked(answer) == expected
            assert oracle.check(scenario, answer.results) == []
        else:
            assert answer.kind is (RejectionKind.FAULT if expected == oracle.ERROR else RejectionKind.NO_SOLUTION), (
                expected,
                answer,
            )
            assert not isinstance(expected, list)
    assert compared > SIZE * 0.9


@pytest.mark.parametrize("batch", BATCHES[:4])
def test_devices_in_use_whose_groups_contradict_each_other(batch: int) -> None:
    """They can, since slices change. The first that is published decides; one without groups changes nothing."""
    contradictions = 0
    for number in range(SIZE):
        dice = random.Random(batch * SIZE + number)
        scenario = partitioned_scenario(dice)
        contradictions += contradictory(scenario)
        answer = allocate(inventory_of(scenario), scenario.node, scenario.claims)
        expected = oracle.Oracle(scenario).solve()
        assert (picked(answer) if isinstance(answer, Allocation) else None) == expected
    assert contradictions > SIZE // 10


def contradictory(scenario: Scenario) -> bool:
    """Whether devices with groups and without hold the same counter set."""
    in_use = oracle.held(scenario)
    kinds: dict[str, set[bool]] = {}
    for device in oracle.devices_of(scenario):
        if device["name"] in in_use:
            for entry in device["consumesCounters"]:
                kinds.setdefault(entry["counterSet"], set()).add("compatibilityGroups" in entry)
    return any(len(kind) > 1 for kind in kinds.values())


@pytest.mark.parametrize("batch", BATCHES)
def test_pruning_leaves_the_first_solution_what_it_is(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decided = 0
    for number in range(100):
        scenario = larger_scenario(random.Random(batch * 100 + number))
        inventory = inventory_of(scenario)
        monkeypatch.setattr(search_module, "_PATIENCE", 10**9)
        plain = allocate(inventory, scenario.node, scenario.claims, explain=False, work=Work(30_000))
        if isinstance(plain, Rejection) and plain.kind is RejectionKind.UNDECIDED:
            continue
        decided += 1
        monkeypatch.setattr(search_module, "_PATIENCE", 1)
        monkeypatch.setattr(search_module, "_MORE_PATIENCE", 5)
        monkeypatch.setattr(search_module, "_LONG_PATIENCE", 20)
        pruned = allocate(inventory, scenario.node, scenario.claims, explain=False)
        if isinstance(plain, Allocation):
            assert pruned == plain
        else:
            assert isinstance(pruned, Rejection)
            assert pruned.kind is plain.kind
    assert decided > 70


@pytest.mark.parametrize("batch", BATCHES[:4])
def test_packing_is_valid_and_serves_what_kubernetes_serves(batch: int) -> None:
    for scenario in scenarios(batch):
        inventory = inventory_of(scenario)
        packed = allocate(inventory, scenario.node, scenario.claims, policy=PACK, explain=False)
        plain = allocate(inventory, scenario.node, scenario.claims, explain=False)
        if isinstance(packed, Allocation):
            assert oracle.check(scenario, packed.results) == []
        faulty = any(isinstance(each, Rejection) and each.kind is RejectionKind.FAULT for each in (packed, plain))
        assert faulty or isinstance(packed, Allocation) == isinstance(plain, Allocation)


@pytest.mark.parametrize("batch", BATCHES[:4])
def test_the_order_in_which_slices_arrive_changes_nothing(batch: int) -> None:
    for number, scenario in enumerate(scenarios(batch)):
        dice = random.Random(number)
        shuffled = copy.deepcopy(scenario)
        dice.shuffle(shuffled.slices)
        dice.shuffle(shuffled.allocated)
        one = allocate(inventory_of(scenario), scenario.node, scenario.claims, explain=False)
        other = allocate(inventory_of(shuffled), shuffled.node, shuffled.claims, explain=False)
        assert one == other


@pytest.mark.parametrize("batch", BATCHES[:4])
def test_commit_and_undo_lead_back(batch: int) -> None:
    for scenario in scenarios(batch):
        inventory = inventory_of(scenario)
        view = inventory.view(scenario.node)
        before = (view.held, view.shared, [list(each.left) for each in view.counter_sets.values()])
        answer = allocate(inventory, scenario.node, scenario.claims, explain=False)
        if isinstance(answer, Allocation):
            commitment = commit(inventory, answer)
            repeated = commit(inventory, answer)
            repeated.undo()
            commitment.undo()
        assert (
            view.held,
            view.shared,
            [list(each.left) for each in view.counter_sets.values()],
        ) == before
        assert allocate(inventory, scenario.node, scenario.claims, explain=False) == answer


@pytest.mark.parametrize("batch", BATCHES[:4])
def test_an_inventory_kept_current_equals_one_made_anew(batch: int) -> None:
    for number, scenario in enumerate(scenarios(batch)):
        dice = random.Random(number)
        inventory = Inventory(classes=scenario.classes)
        events = [*[("slice", each) for each in scenario.slices], *[("claim", each) for each in scenario.allocated]]
        dice.shuffle(events)
        for kind, each in events:
            allocate(inventory, scenario.node, scenario.claims, explain=False)
            (inventory.put_slice if kind == "slice" else inventory.put_claim)(each)
        for each in dice.sample(scenario.slices, k=1):
            inventory.remove_slice(each["metadata"]["name"])
            allocate(inventory, scenario.node, scenario.claims, explain=False)
            inventory.put_slice(each)
        fresh = allocate(inventory_of(scenario), scenario.node, scenario.claims, explain=False)
        assert allocate(inventory, scenario.node, scenario.claims, explain=False) == fresh


@pytest.mark.parametrize("batch", BATCHES[:2])
def test_freeing_what_a_rejection_names_makes_room(batch: int) -> None:
    named = 0
    for scenario in scenarios(batch):
        inventory = inventory_of(scenario)
        answer = allocate(inventory, scenario.node, scenario.claims)
        if isinstance(answer, Rejection) and answer.to_free:
            named += 1
            for claim in scenario.allocated:
                if (claim["metadata"]["namespace"], claim["metadata"]["name"]) in answer.to_free:
                    inventory.remove_claim(claim)
            assert isinstance(allocate(inventory, scenario.node, scenario.claims), Allocation)
    assert named
