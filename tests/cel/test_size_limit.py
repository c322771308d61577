"""Each evaluation has a size limit of its own, also in threads."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from dray.cel import DEVICE, CostLimitExceeded, size_limit
from dray.cel.selector import compile_expression, compile_text

from .fixtures import plain

# Two of them together exceed the limit: each compares lists of 150,000 elements twice.
LARGE = "cel.bind(x, lists.range(150000), x == x && x != [])"
THREADS = 4


def test_units_are_counted_down_to_none():
    size_limit.start()
    size_limit.spend(size_limit.LIMIT)
    with pytest.raises(CostLimitExceeded):
        size_limit.spend(1)
    size_limit.start()
    size_limit.spend(1)


def test_one_evaluation_after_another_starts_anew():
    program = compile_text(LARGE, DEVICE)
    for _ in range(8):
        assert program.evaluate(plain()).value is True


def test_evaluations_in_threads_do_not_share_a_limit():
    program = compile_text(LARGE, DEVICE)
    together = Barrier(THREADS)

    def evaluate(_):
        together.wait()
        return [program.evaluate(plain()).value for _ in range(4)]

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(evaluate, range(THREADS))) == [[True] * 4] * THREADS


def test_a_thread_that_exceeds_the_limit_does_not_lift_it_for_others():
    tree = "".join(f"cel.bind(x{i}, {'[1, 2]' if i == 0 else f'[x{i - 1}, x{i - 1}]'}, " for i in range(60))
    hostile = compile_text(f"{tree}x59 == x59{')' * 60}", DEVICE)
    small = compile_text("device.driver.split('').join('') == device.driver", DEVICE)
    together = Barrier(THREADS)

    def evaluate(index):
        together.wait()
        for _ in range(3):
            if index % 2:
                assert small.matches(plain())
            else:
                with pytest.raises(CostLimitExceeded):
                    hostile.matches(plain())
        return True

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(evaluate, range(THREADS)))


def test_constants_of_many_compilations_do_not_add_up():
    text = f"string('{'a' * 9000}') == 'b'"
    for _ in range(600):
        assert compile_expression(text, {}).run().value is False
