from __future__ import annotations

import random
from itertools import product

from dray.allocation.pruning.demands import servable


def by_trying(wants: list[tuple[int, int]]) -> bool:
    """Whether the wants can be served, by trying every way to hand out members."""
    members = max((bits.bit_length() for _, bits in wants), default=0)
    for owners in product(range(len(wants) + 1), repeat=members):
        given = [0] * (len(wants) + 1)
        for member, owner in enumerate(owners):
            if owner < len(wants) and wants[owner][1] >> member & 1:
                given[owner] += 1
        if all(given[number] >= need for number, (need, _) in enumerate(wants)):
            return True
    return not members and all(need <= 0 for need, _ in wants)


def test_agrees_with_trying() -> None:
    dice = random.Random(3)
    outcomes = set()
    for _ in range(400):
        wants = [(dice.randint(0, 3), dice.randrange(64)) for _ in range(dice.randint(1, 3))]
        outcomes.add(servable(wants))
        assert servable(wants) == by_trying(wants), wants
    assert outcomes == {True, False}


def test_large_wants_are_quick() -> None:
    half = (1 << 500) - 1
    assert servable([(300, half), (400, half << 250), (50, half << 500)])
    assert not servable([(1, 1 << number % 31) for number in range(32)])
