"""Which terms are filled in for others, and that they are then those of the text."""

import random
import re

import pytest

from dray.cel import DEVICE
from dray.cel.forms import names_of, shape_of
from dray.cel.selector import compile_anew
from dray.cel.shapes import Shapes

from .test_shapes import NAMES, A, another, compiled, known, outcome

NAME = re.compile(r"\]\.[a-z]+\b(?!\()")


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
        (f'{A}.cores == "a"', f'{A}.model == "X100"', True),
        (f'{A}.cores == "a"', f'{A} .model == "X100"', False),
        (f'{A}.cores == "a"', f'{A}.model.cores == "X100"', False),
        (f'{A}.cores == "a"', f'{A}.device == "X100"', False),
        (f'{A}.cores == "a"', f'{A}.for == "X100"', False),
        (f'{A}.cores == "a"', f'{A}.in == "X100"', False),
        (f'{A}.cores == "a"', f'{A}.?model == "X100"', False),
        (f'{A}.cores == "a"', f'{A}.`model` == "X100"', False),
        (f"has({A}.cores)", f"has({A}.model)", True),
        (f"{A}.size()", f"{A}.keys()", False),
        (f"{A}.size ()", f"{A}.keys ()", False),
        (f'{A}.model.matches("X.*")', f'{A}.nope.matches("X.*")', True),
        (f'{A}.model.matches("X.*")', f'{A}.nope.matches("Y.*")', False),
        (
            'device.capacity["a"].b.isLessThan(quantity("1"))',
            'device.capacity["gpu.acme.test"].mem.isLessThan(quantity("2Ti"))',
            True,
        ),
        ("[device][0].driver == 'a'", "[device][0].attributes == 'a'", False),
        ("[device][0].driver == 'a'", "[device][0].driver == 'gpu.acme.test'", True),
    ],
)
def test_what_is_filled_in(first, second, filled):
    shapes = Shapes(compile_anew)
    shapes.program(first, DEVICE)
    assert known(shapes, second) == filled
    for text in (second, first, second):
        assert outcome(shapes.program, text) == outcome(compile_anew, text)


@pytest.mark.parametrize(
    "text",
    [
        f'{A}.model == "X100"',
        f'{A}.model == "X100" && {A}.model != "a" && "a" in {A}',
        f"{A}.model",
        f"{A}.model > 3 ? {A}.cores > 5 : {A}.ecc",
        f"has({A}.model)",
        f"has({A}.model) && !has({A}.model) || {A}.model.size() > 3",
        f"has({A}.model.model)",
        f"{A}.model[0].model == 1",
        f"{A}.model.size() == 4",
        f"{A}.model == {A}.ecc",
        f'{A}.model in ["X100", "hbm"]',
        f'{A}.model.matches("X.*")',
        f'{A}.model.exists(m, m == "hbm")',
        f'cel.bind(x, {A}.model, x == "X100")',
        'device.capacity["gpu.acme.test"].mem.compareTo(quantity("40Gi")) >= 0',
        'device.capacity["gpu.acme.test"].mem == device.capacity["fab.test"].bw',
        'device.attributes[device.driver].model == "X100"',
        'device.attributes[?"gpu.acme.test"].model.orValue("") == "X100"',
        'device.attributes[?"gpu.acme.test"].model.size() == 4',
        '[device][0].driver == "X100"',
        '[device][?0].driver.orValue("") == "X100"',
        '[device][0].attributes["gpu.acme.test"].model == "X100"',
        'cel.bind(d, [device], d[0].capacity["gpu.acme.test"].mem.isGreaterThan(quantity("1")))',
        '[dyn(device)][0].driver == "X100"',
        '[{"driver": "X100"}][0].driver == "X100"',
        '[{"device": dyn("b")}][?0].a.orValue("") < device.driver',
        '[dyn({"a": "b"})][?0].a.driver.orValue("") < device.driver',
        "[optional.of(dyn(1))][0].a.hasValue()",
        '{"a": {"b": 1}}["a"].b == 1',
        "[1, 2].model == 1",
        "[1].model.all(x, x == 1)",
        f"[{A}.model].all(x, {A}.model == x)",
        "[[]][0].model == 1",
    ],
)
def test_programs_with_other_names_are_those_of_their_text(text):
    source = random.Random(4)
    assert names_of(shape_of(text).literals)
    shapes = Shapes(compile_anew)
    compiled(shapes.program, text)
    for name in [*NAMES, *[None] * 40]:
        other = NAME.sub(lambda _, name=name: f"].{name}" if name else another("]", source), text)
        assert outcome(shapes.program, other) == outcome(compile_anew, other), other
    assert all(len(terms) <= 4 for terms in shapes._terms.values())
