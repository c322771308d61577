"""Programs of device expressions are kept and shared, within bounds."""

import tracemalloc
from contextlib import suppress

import pytest

from dray.api.caches import Cache
from dray.cel import DEFAULT_GATES, DEVICE, CelError, CompileError, compile_derived, compile_selector, selector
from dray.cel.selector import compile_text

from .fixtures import plain

A = 'device.attributes["gpu.acme.test"]'


def test_a_text_is_compiled_once():
    text = f'{A}.model == "once"'
    assert compile_selector(text) is compile_selector(text)
    assert compile_selector(text) is compile_derived(text)
    assert compile_selector(text) is not compile_selector(text, env=DEFAULT_GATES)


def test_what_a_program_may_yield_is_asked_of_kept_ones_too():
    text = "[1].map(x, x == 5)"
    for _ in range(2):
        with pytest.raises(CompileError, match="must evaluate to bool") as refused:
            compile_selector(text)
        assert (refused.value.text, refused.value.offset) == (text, 0)
        assert compile_derived(text).expression == text


@pytest.mark.parametrize(
    "text",
    [
        f"{A}.x{{0}} == 'b'",
        f"{A}.x{{0}} == " + "[" * 200 + "1" + "]" * 200,
        " && ".join([f"{A}.x{{0}}y{index} == 'b'" for index in range(100)]),
        f"{A}.model == 'x{{0}}'" + "+ 'a'" * 400,
        "optional.of({0})" + ".optMap(x, x)" * 6 + ".hasValue()",
        'isSemver("{0}' + "1" * 9000 + '.0.0")',
    ],
)
def test_what_is_kept_of_hostile_texts_is_bounded(text, monkeypatch):
    """Programs take no more memory than their cache was told; a dozen of most of these texts overflow it."""
    limit = 2 * 2**20
    kept = Cache(4096, limit)
    monkeypatch.setattr(selector, "PROGRAMS", kept)
    device = plain()
    tracemalloc.start()
    try:
        for index in range(12):
            program = compile_selector(text.format(index))
            assert program.estimated_cost >= 0
            assert program.reads is not None
            for ask in (program.matches, program.evaluate):
                with suppress(CelError):
                    ask(device)
        assert kept.size <= limit
        assert tracemalloc.get_traced_memory()[0] < limit
    finally:
        tracemalloc.stop()


def test_an_expression_of_any_length_compiles_outside_of_devices():
    text = "+".join(["1"] * 9000)
    assert compile_text(text, DEVICE).evaluate(plain()).value == 9000
    with pytest.raises(CompileError, match="too long"):
        compile_selector(f"{text} > 0")
