"""Problems that are hard to search are decided, and rightly, within 300,000 units of work: about 0.3 s."""

from __future__ import annotations

import pytest

from dray.allocation import Allocation, Inventory, Rejection, RejectionKind, Work, allocate
from tests.allocation import oracle
from tests.allocation.hard import KINDS, Case

MOST = 300_000


@pytest.mark.parametrize("kind", KINDS)
def test_is_decided_in_time(kind: str) -> None:
    cases = list(KINDS[kind]())
    assert len(cases) >= 10
    for case in cases:
        answer = _asked(case, MOST)
        if case.solvable:
            assert isinstance(answer, Allocation), case.title
            # The oracle does not know the selectors of partitions.
            assert kind == "partitions" or oracle.check(case.scenario, answer.results) == [], case.title
        else:
            assert isinstance(answer, Rejection), case.title
            assert answer.kind is RejectionKind.NO_SOLUTION, case.title


def test_no_attempt_does_more_than_it_may() -> None:
    for kind in ("counters", "partitions", "colouring"):
        for case in KINDS[kind]():
            answer = _asked(case, 5_000)
            assert answer.work < 8_000, case.title
            if isinstance(answer, Allocation) or answer.kind is not RejectionKind.UNDECIDED:
                assert isinstance(answer, Allocation) is case.solvable, case.title


def _asked(case: Case, most: int) -> Allocation | Rejection:
    scenario = case.scenario
    inventory = Inventory(slices=scenario.slices, classes=scenario.classes)
    return allocate(inventory, scenario.node, scenario.claims, work=Work(most), explain=False)
