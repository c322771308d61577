"""Expressions as deep as Kubernetes allows compile under Python's own limits, in several threads at once."""

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from dray.cel import DEVICE, CelError, CompileError
from dray.cel.parser import MAX_NESTING
from dray.cel.recursion import run
from dray.cel.selector import compile_expression, compile_text

from .fixtures import plain

DEEP = MAX_NESTING - 2
HALF = DEEP // 2
THREADS = 3


def nested(before, inside, after, times=DEEP):
    return before * times + inside + after * times


def loops(macro, inside):
    return "".join(f"[1].{macro}(x{index}, " for index in range(DEEP)) + inside + ")" * DEEP


TRUE = {
    "parentheses": nested("(", "true", ")"),
    "lists": f"{nested('[', '1', ']')}.size() == 1",
    "maps": nested("{1: ", "1", "}") + ".size() == 1",
    "calls": nested("dyn(", "true", ")"),
    "indexes": f"{nested('dyn([0])[', '0', ']')} == 0",
    "conditions": nested("(true ? ", "true", " : false)"),
    "a ladder of conditions": "false ? false : " * (DEEP - 1) + "true",
    "and in or": nested("(true && (false || ", "device.driver != ''", "))", HALF),
    "negations": nested("!(", "true", ")"),
    "sums": f"{nested('1 + (', '1', ')')} == {DEEP + 1}",
    "loops": loops("all", "x0 == 1"),
    "loops that collect": f"{loops('map', '1')}.size() == 1",
    "bound variables": nested("cel.bind(x, ", "true", ", x)"),
    "optionals": nested("optional.none().orValue(", "true", ")"),
    "arguments": nested('"a".replace("a", ', '"b"', ")") + ' == "b"',
    "errors that do not matter": nested("(1 / 0 == 1 || ", "true", ")"),
}
WRONG = {
    "nesting": (nested("(", "true", ")", MAX_NESTING), "recursion limit exceeded"),
    "a name": (nested("(", "nope", ")"), "undeclared reference to 'nope'"),
    "a type": (nested("[", "1 + 'a'", "]"), "no matching overload for '_+_'"),
    "a constant": (nested("[", 'int("x")', "]") + " == []", "program instantiation failed"),
}


@pytest.mark.parametrize("name", TRUE)
def test_deep_expressions_compile_and_run(name):
    program = compile_text(TRUE[name], DEVICE)
    assert program.matches(plain())
    assert program.evaluate(plain()).value is True
    assert program.locate(plain()) is None
    assert program.estimated_cost >= 0
    assert program.reads is not None


@pytest.mark.parametrize("name", WRONG)
def test_deep_expressions_are_refused_for_what_is_wrong(name):
    text, message = WRONG[name]
    with pytest.raises(CompileError, match=message.replace("+", r"\+")):
        compile_text(text, DEVICE)


def test_deep_expressions_run_unchecked():
    text = nested("[", "device", "]")
    assert compile_expression(f"{text}.size()", {}, checked=False).root is not None
    assert compile_expression(f"size({nested('[', '1', ']')})", {}, checked=False).run().value == 1


def outcome(text):
    try:
        program = compile_text(text, DEVICE)
        return program.evaluate(plain()), program.matches(plain()), program.estimated_cost, program.reads
    except CelError as error:
        return type(error), str(error)


def test_threads_compile_deep_expressions_at_once():
    limit, collecting = sys.getrecursionlimit(), gc.isenabled()
    texts = [*TRUE.values(), *[text for text, _ in WRONG.values()]]
    alone = {text: outcome(text) for text in texts}
    together = Barrier(THREADS)

    def compile_all(start):
        together.wait()
        found = {text: outcome(text) for text in texts[start:] + texts[:start]}
        assert sys.getrecursionlimit() == limit
        assert gc.isenabled() == collecting
        return found

    with ThreadPoolExecutor(THREADS) as pool:
        for found in pool.map(compile_all, range(0, len(texts), len(texts) // THREADS)[:THREADS]):
            assert found == alone


def test_steps_return_what_nested_ones_give():
    def count(number):
        if number == 0:
            return 0
        return 1 + (yield count(number - 1))

    assert run(count(50_000)) == 50_000


def test_an_error_of_a_nested_step_ends_all():
    def fail(number):
        if number == 0:
            raise ValueError("the innermost")
        yield fail(number - 1)

    with pytest.raises(ValueError, match="innermost"):
        run(fail(5000))
