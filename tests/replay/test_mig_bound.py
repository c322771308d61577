"""The bound for random partitions in docs/replay.md: no way to place them accepts more."""

import importlib.util
from math import exp, factorial
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "mig_bound.py"
WHOLE = [frozenset("abcd")]
HALF = [frozenset("ab"), frozenset("cd")]
FIRST_HALF = HALF[:1]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mig_bound", TOOL)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def erlang(load, servers):
    """The accepted part if all partitions are alike and none is refused that fits."""
    terms = [load**number / factorial(number) for number in range(servers + 1)]
    return 100 * (1 - terms[-1] / sum(terms))


def test_all_are_accepted_if_there_is_room(tool):
    assert tool.accepted_at_most({"half": 1.0}, {"half": HALF}, 20) == pytest.approx(100)


def test_one_gpu_for_whole_partitions(tool):
    # Of a Poisson number with the mean 1, all but one are refused: on average exp(-1).
    assert tool.accepted_at_most({"whole": 1.0}, {"whole": WHOLE}, 1) == pytest.approx(100 * (1 - exp(-1)))


@pytest.mark.parametrize(("load", "gpus"), [(0.5, 1), (2.0, 1), (4.0, 4), (8.0, 4), (30.0, 32)])
@pytest.mark.parametrize(("places", "servers"), [(WHOLE, 1), (HALF, 2)])
def test_the_bound_is_above_the_best_for_equal_partitions(tool, load, gpus, places, servers):
    bound = tool.accepted_at_most({"profile": load}, {"profile": places}, gpus)
    assert erlang(load, servers * gpus) <= bound <= 100


def test_partitions_that_need_the_same_slice_exclude_each_other(tool):
    placements = {"first": FIRST_HALF, "half": HALF}
    bound = tool.accepted_at_most({"first": 60.0, "half": 20.0}, placements, 40)
    # There is memory for 80 of them; but the 60 of which a GPU has at most one need 60 GPUs.
    assert bound == pytest.approx(100 * 60 / 80, abs=0.1)
