"""Every question that Kubernetes answered, and the ones that made its search run away."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.testing.conformance import allocation
from dray.testing.conformance.corpus import Case, read

CORPORA = Path(__file__).parents[1] / "conformance"
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_allocates_as_kubernetes_does(part: int) -> None:
    cases = list(read(CORPORA / "allocation.jsonl.gz"))[part::PARTS]
    differences = [outcome for outcome in map(allocation.run, cases) if outcome.difference]
    assert len(cases) == 3900 / PARTS
    assert differences == []


@pytest.mark.parametrize("case", list(read(CORPORA / "hard.jsonl.gz")), ids=lambda case: case["name"])
def test_does_not_run_away(case: Case) -> None:
    assert allocation.run_hard(case).difference is None


def test_a_slow_answer_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "TIME_LIMIT", 0.0)
    (case, *_) = read(CORPORA / "hard.jsonl.gz")
    assert "the limit is 0 ms" in str(allocation.run_hard(case).difference)


def test_a_wrong_answer_is_told_apart() -> None:
    case = next(case for case in read(CORPORA / "allocation.jsonl.gz") if case["expect"][0]["outcome"] == "allocated")
    result = case["expect"][0]["results"][0]["devices"]["results"][0]
    assert allocation.run({**case}).difference is None
    result["device"] = "another"
    assert "another" in str(allocation.run(case).difference)
    case["expect"][0] = {"node": case["expect"][0]["node"], "outcome": "none"}
    assert "expected none, got allocated" in str(allocation.run(case).difference)
