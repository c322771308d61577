"""Compiling a regular expression is charged: to its object and to its evaluation."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api import intake
from dray.cel import CompileError, CostLimitExceeded, EvaluationError, Expressions, compile_selector, patterns

from .fixtures import plain

LETTERS = "[\\\\p{L}]{1,100}"


def claim(*selectors: str) -> dict[str, Any]:
    requests = [{"cel": {"expression": expression}} for expression in selectors]
    exactly = {"deviceClassName": "gpu", "selectors": requests}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }


def many(first: int, number: int) -> str:
    return " || ".join(f'device.driver.matches("{LETTERS}{index}")' for index in range(first, first + number))


def problems(*selectors: str) -> list[str]:
    found = intake.check(claim(*selectors), expressions=Expressions())
    return [f"{error.field}: {error.detail}" for error in found]


def test_patterns_of_one_expression_have_a_limit_together():
    with pytest.raises(CompileError, match="too large together"):
        compile_selector(many(0, 60))


def test_patterns_of_all_selectors_of_a_claim_have_a_limit_together():
    assert problems(many(100, 2), many(200, 2)) == []
    found = problems(many(100, 2), many(200, 2), many(300, 1), many(400, 1))
    assert [message.split(":")[0] for message in found] == [
        f"spec.devices.requests[0].exactly.selectors[{index}].cel.expression" for index in (2, 3)
    ]
    assert all("the regular expressions of this object are too large together" in message for message in found)


def test_the_limit_does_not_depend_on_what_was_compiled_before():
    selectors = [many(500, 2), many(510, 2), many(520, 1)]
    assert [problems(*selectors) for _ in range(2)] == [problems(*selectors)] * 2
    assert len(problems(*selectors)) == 1
    assert problems(selectors[2]) == []


def test_patterns_that_are_refused_count_too():
    huge = [f'device.driver.matches("\\\\p{{L}}{{1000}}{index}")' for index in range(8)]
    found = problems(*huge)
    assert sum("pattern too large" in message for message in found) <= 3
    assert len(found) == 8


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[\p{L}\p{Z}\p{N}_.:/=+\-@]{0,256}$",
        r"^[\p{L}\p{N}]{1,63}$",
        r"^.{1,1000}$",
        r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$",
    ],
)
def test_long_patterns_in_use_are_accepted(pattern):
    assert problems(f"device.driver.matches(r'{pattern}')") == []


def test_a_computed_pattern_that_is_too_large_fails_the_evaluation():
    program = compile_selector(f'device.driver.matches("{LETTERS}" + device.driver)')
    assert program.computes_patterns
    with pytest.raises(EvaluationError, match="pattern too large"):
        program.matches(plain())


def test_computed_patterns_have_a_limit_together():
    selector = " && ".join(f'!device.driver.matches("{number}.{{900}}" + device.driver)' for number in range(9))
    with pytest.raises(CostLimitExceeded):
        compile_selector(selector).matches(plain())


def test_a_computed_pattern_costs_by_its_instructions():
    short = compile_selector('device.driver.matches("a" + device.driver)')
    long = compile_selector('device.driver.matches("a.{500}" + device.driver)')
    assert short.evaluate(plain()).cost < 20
    assert long.evaluate(plain()).cost > 10_000


def test_a_literal_pattern_costs_what_kubernetes_counts():
    program = compile_selector('device.driver.matches("a.{500}")')
    assert program.evaluate(plain()).cost < 20


def test_the_cache_is_bounded_by_memory():
    for number in range(4000):
        patterns.compile_pattern(f"[a-z]{{3}}{number}")
    assert patterns._CACHE.size <= 96 * 2**20
    assert len(patterns._CACHE) < 4000
