"""Programs filled in from a template are those that compiling their text gives."""

import random
from pathlib import Path

import pytest

from dray.cel import DEVICE, CompileError, EvaluationError
from dray.cel.selector import SHAPES, compile_anew, compile_selector
from dray.cel.shapes import Filled, Shapes, shape_of
from dray.testing.conformance import corpus

from .fixtures import lists, plain
from .test_fuzz import expression

A = 'device.attributes["gpu.acme.test"]'
CORPUS = Path(__file__).parents[1] / "conformance" / "cel.jsonl.gz"
STRINGS = [
    "",
    "X100",
    "gpu.acme.test",
    "model",
    "80Gi",
    "1.2.3",
    "é😀",
    "(",
    "a" * 40,
    "a" * 127,
    "x//y",
    "`",
    "5s",
    "UTC",
]
DEVICES = (lists(), plain())
NUMBERS = ["0", "1", "3", "64", "007", "999999999999999999", "2"]


@pytest.fixture(scope="module")
def texts():
    """Every expression of the corpus, and random ones."""
    source = random.Random(1)
    written = {case["expression"] for case in corpus.read(CORPUS) if "expression" in case}
    return sorted(written) + [expression(source, source.randint(1, 3)) for _ in range(400)]


def with_other_literals(text, source):
    shape = shape_of(text)
    if shape is None:
        return text
    parts, literals = split(shape)
    for position, literal in enumerate(literals):
        if source.random() < 0.6:
            literals[position] = source.choice(NUMBERS) if literal[0].isdigit() else repr(source.choice(STRINGS))
    return "".join(part for pair in zip(parts, [*literals, ""], strict=True) for part in pair)


def split(shape):
    return shape.form.replace("\x02", "\x01").split("\x01"), list(shape.literals)


def outcome(compile_, text):
    """Everything that can be asked of a text, or why it is refused."""
    try:
        program = compile_(text, DEVICE)
    except CompileError as error:
        return error.message, error.offset, str(error)
    found = [str(program.result_type), program.expression]
    for device in DEVICES:
        fast = program._compile_fast()
        for ask in (program.matches, program.evaluate, program.locate, fast):
            try:
                found.append(repr(ask(device)) if ask is not None else None)
            except EvaluationError as error:
                found.append((type(error), str(error), error.cost if ask is not fast else 0))
            except LookupError as error:
                found.append((type(error), str(error)))
    return [*found, program.estimated_cost, program.reads]


def test_filled_programs_are_those_of_their_text(texts):
    source = random.Random(2)
    filled = 0
    for text in texts:
        shapes = Shapes(compile_anew)
        for _ in range(3):
            other = with_other_literals(text, source)
            assert outcome(shapes.program, other) == outcome(compile_anew, other), other
        filled += known(shapes, with_other_literals(text, source))
    assert filled > len(texts) * 0.15


def known(shapes, text):
    try:
        return isinstance(shapes.program(text, DEVICE), Filled)
    except CompileError:
        return False


@pytest.mark.parametrize(
    ("first", "second", "filled"),
    [
        (f'{A}.model == "a"', f'{A}.model == "X100"', True),
        (f'{A}.model == "a"', f"{A}.model == 'X100'", True),
        (f'{A}.model == "a"', f"{A}.model == 5", False),
        (f'{A}.model == "a"', f'{A}.model  == "a"', False),
        (f'{A}.model == "a"', f'{A}.model == "' + "a" * 127 + '"', False),
        (f'{A}.model == "a"', f'{A}.model == "\\x41"', False),
        (f'{A}.model == "a"', f'{A}.model == r"a"', False),
        (f"{A}.cores > -7", f"{A}.cores > -65", True),
        (f"{A}.cores > -0", f"{A}.cores > -65", False),
        (f"{A}.cores > 1", f"{A}.cores > 999999999999999999", True),
        (f"{A}.cores > 1", f"{A}.cores > 9999999999999999999", False),
        (f"{A}.cores > 1", f"{A}.cores > 0x10", False),
        (f"dyn({A}.cores) > 1", f"dyn({A}.cores) > 1u", False),
        (f"dyn({A}.cores) > 1", f"dyn({A}.cores) > 1.5", False),
        (
            'device.capacity["a"].mem.isLessThan(quantity("1"))',
            'device.capacity["gpu.acme.test"].mem.isLessThan(quantity("1Ti"))',
            True,
        ),
        (
            'device.capacity["gpu.acme.test"].mem.isLessThan(quantity("1"))',
            'device.capacity["gpu.acme.test"].mem.isLessThan(quantity("?"))',
            True,
        ),
        (f'{A}.model.matches("X.*")', f'{A}.model.matches("Y.*")', False),
        (f'{A}.model.matches("X.*")', f'{A}.model.matches("(")', False),
        (f'{A}.model in ["a", "b"]', f'{A}.model in ["X100", "b"]', False),
        (f'"a" in {A}', f'"model" in {A}', True),
        ('int("1") == 1', 'int("a") == 1', False),
        ('int("1") == 1', 'int("1") == 2', True),
        (f'{A}.exists(k, k == "a")', f'{A}.exists(k, k == "model")', True),
        (
            'optional.of("a").optMap(x, x == "a").orValue(false)',
            'optional.of("a").optMap(x, x == "b").orValue(false)',
            True,
        ),
        (f'{A}.model == "a" // "b"', f'{A}.model == "X100" // "c"', False),
    ],
)
def test_what_is_filled_in(first, second, filled):
    shapes = Shapes(compile_anew)
    shapes.program(first, DEVICE)
    assert known(shapes, second) == filled
    for text in (second, first, second):
        assert outcome(shapes.program, text) == outcome(compile_anew, text)


def test_an_expression_that_may_cost_too_much_is_never_filled_into_the_fast_variant():
    """Each comparison alone is cheap, and the loops around it are not; how long the literal is decides."""
    text = "lists.range(900).all(x, lists.range(90).all(y, device.driver < '{}'))"
    shapes = Shapes(compile_anew)
    short = shapes.program(text.format("a"), DEVICE)
    long = shapes.program(text.format("a" * 100), DEVICE)
    assert isinstance(long, Filled)
    assert short.may_run_fast
    assert not long.may_run_fast
    assert long._compile_fast() is None


def test_few_shapes_are_remembered():
    shapes = Shapes(compile_anew)
    for index in range(200):
        shapes.program(f'{A}.a{index} == "x"', DEVICE)
        shapes.program(f'{A}.model.matches("{index}")', DEVICE)
    assert len(shapes._templates) <= 64
    assert all(len(templates) <= 4 for templates in shapes._templates.values())
    shapes.clear()
    assert not shapes._templates


def test_selectors_are_filled_in():
    SHAPES.clear()
    assert compile_selector(f'{A}.shape_test == "a"').expression == f'{A}.shape_test == "a"'
    assert isinstance(compile_selector(f'{A}.shape_test == "b"'), Filled)
    for text in ("[1].map(x, x == 5)", "[1].map(x, x == 6)"):
        with pytest.raises(CompileError, match="must evaluate to bool") as refused:
            compile_selector(text)
        assert (refused.value.text, refused.value.offset) == (text, 0)
