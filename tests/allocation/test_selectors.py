"""Compiled selectors are forgotten: claims come and go with ever other ones, and memory has an end."""

from __future__ import annotations

from typing import Any

import pytest

from dray import cel
from dray.allocation import selectors
from dray.allocation.devices import Device
from dray.allocation.inventory import Inventory
from dray.allocation.selectors import Selectors
from dray.allocation.work import Work, WorkExhausted
from dray.api.gates import ALL_GATES


def device(number: int) -> Device:
    return Device("d.example", "p", {"name": f"gpu-{number}", "attributes": {"id": {"int": number}}})


def one(number: int) -> str:
    return f'device.attributes["d.example"].id == {number}'


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The expressions that were compiled."""
    texts: list[str] = []

    def compile_selector(expression: str, **options: Any) -> cel.Program:
        texts.append(expression)
        return original(expression, **options)

    original = cel.compile_selector
    monkeypatch.setattr(cel, "compile_selector", compile_selector)
    return texts


def test_expressions_that_were_not_asked_for_lately_are_forgotten(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectors, "_MOST_TEXT", 2000)
    asked = Selectors(ALL_GATES)
    devices = [device(number) for number in range(4)]
    for number in range(300):
        assert asked.column(one(1), devices).selected == 0b10
        assert asked.column(one(number), devices).selected == (1 << number if number < 4 else 0)
    assert compiled.count(one(1)) == 1
    assert asked.column(one(2), devices).selected == 0b100
    assert compiled.count(one(2)) == 2
    assert len(asked._known) < 25


def test_answers_are_counted_over_all_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "_MOST_ANSWERS", 100)
    asked = Selectors(ALL_GATES)
    devices = [device(number) for number in range(30)]
    for number in range(30):
        assert asked.column(one(number), devices).selected == 1 << number
        assert asked._answers == sum(len(each.answers) for each in asked._known.values()) <= 130
    many = [device(number) for number in range(500)]
    assert asked.column(one(7), many).selected == 1 << 7
    assert asked._answers == sum(len(each.answers) for each in asked._known.values()) <= 100


def test_slices_and_views_remember_a_limited_number_of_columns() -> None:
    devices = [{"name": f"gpu-{number}", "attributes": {"id": {"int": number}}} for number in range(2)]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example", "pool": pool, "nodeName": "n", "devices": devices}
    inventory = Inventory(slices=[{"metadata": {"name": "s"}, "spec": spec}])
    view = inventory.view({"metadata": {"name": "n"}})
    for number in range(3 * selectors.MOST_COLUMNS):
        assert view.column(one(number), inventory.selectors).selected == (1 << number if number < 2 else 0)
        assert len(view.index(f"d.example/a{number}").values) == 0
    assert len(view._columns) <= selectors.MOST_COLUMNS
    assert len(view.slices[0][0]._columns) <= selectors.MOST_COLUMNS
    assert not view.devices[0]._attributes


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ('[dyn(1), dyn("a")]', "scalars of one type"),
        ("[dyn(null)]", "scalars of one type"),
        ("dyn(1.5)", "unsupported result"),
    ],
)
def test_derived_attributes_are_scalars_or_lists_of_one_type(expression: str, problem: str) -> None:
    with pytest.raises(cel.EvaluationError, match=problem):
        Selectors(ALL_GATES).derived(expression, device(1))


def test_compiling_patterns_is_work_and_the_next_attempt_goes_on_from_there() -> None:
    asked = Selectors(ALL_GATES)
    costly = " || ".join(f'device.driver.matches("[\\\\p{{L}}]{{1,60}}{number}")' for number in range(3))
    asked.work = Work(30_000)
    with pytest.raises(WorkExhausted):
        asked.column(costly, [device(1)])
    asked.work = Work(30_000)
    assert asked.column(costly, [device(1)]).selected == 0


def test_patterns_of_expressions_that_are_refused_are_work_too() -> None:
    asked = Selectors(ALL_GATES)
    refused = " || ".join(f'device.driver.matches("[\\\\p{{L}}]{{1,100}}{number}")' for number in range(60))
    asked.work = Work(30_000)
    with pytest.raises(WorkExhausted):
        asked.column(refused, [device(1)])
    asked.work = Work(30_000)
    assert "too large together" in asked.column(refused, [device(1)]).faults[0]


def test_patterns_that_are_computed_for_each_device_are_work() -> None:
    asked = Selectors(ALL_GATES)
    asked.work = Work(30_000)
    computed = 'device.driver.matches("a.{900}" + string(device.attributes["d.example"].id))'
    with pytest.raises(WorkExhausted):
        asked.column(computed, [device(number) for number in range(50)])
