"""Programs put together from terms are those that compiling their text gives."""

import random
import re
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dray.cel import DEVICE, CompileError, EvaluationError, types
from dray.cel.forms import shape_of
from dray.cel.selector import SHAPES, compile_anew, compile_selector
from dray.cel.shapes import Filled, Shapes
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
# Some that the devices have, some they do not, words of the language, and what is a name elsewhere.
NAMES = [
    *("model", "cores", "ecc", "tags", "nums", "fw", "mem", "nope", "a", "_", "x" * 40),
    *("in", "true", "null", "for", "inner", "device", "driver", "attributes", "size", "all", "x", "int", "optional"),
]


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
            literals[position] = another(literal, source)
    return "".join(part for pair in zip(parts, [*literals, ""], strict=True) for part in pair)


def another(literal, source):
    if literal[0] == "]":
        return source.choice(["].", "].", "].", "] .", "]. "]) + source.choice(NAMES)
    return source.choice(NUMBERS) if literal[0].isdigit() else repr(source.choice(STRINGS))


def split(shape):
    return re.split("[\x01\x02\x03]", shape.form), list(shape.literals)


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


def test_a_name_that_needs_a_term_of_its_own_takes_no_place_of_another():
    compile_ = Counted()
    shapes = Shapes(compile_)
    texts = [f'{A}.a{name}.matches("{name}{value}")' for name in range(6) for value in range(4)]
    for text in texts:
        shapes.program(text, DEVICE)
    compile_.texts.clear()
    for text in texts[-12:]:
        assert shapes.program(text, DEVICE).reads == compile_anew(text, DEVICE).reads
    assert compile_.texts == []


def conjunction(terms, source):
    """Some of the terms joined, now and then with something that must keep them from being cut apart."""
    chosen = source.choices(terms, k=source.randint(2, 4))
    if source.random() < 0.2:
        chosen[0] = " && ".join(chosen)
    forms = ["{}", "{}", "{}", " {} ", "({})", "({0} || {0})", "!({})"]
    shown = [source.choice(forms) for _ in chosen]
    if source.random() < 0.2:
        shown[-1] = source.choice(["{0} || {0}", "{0} ? {0} : false"])
    joint = source.choice([" && ", "&&", "\n  && "])
    return joint.join([form.format(term) for form, term in zip(shown, chosen, strict=True)])


class Counted:
    """Compiles, and knows what."""

    def __init__(self):
        self.texts = []

    def __call__(self, text, environment, *, wanted=None):
        self.texts.append(text)
        return compile_anew(text, environment, wanted=wanted)


def test_programs_put_together_from_terms_are_those_of_their_text(texts):
    """In one memory, so that of some texts all terms are known, of others a few or none."""
    source = random.Random(3)
    compile_ = Counted()
    shapes = Shapes(compile_)
    ways = {"none": 0, "some": 0, "all": 0}
    terms = [text for text in texts if yields_bool(text)]
    for _ in range(12):
        few = source.sample(terms, 4)
        for _ in range(25):
            text = conjunction(few, source)
            if source.random() < 0.6:
                text = with_other_literals(text, source)
            compile_.texts.clear()
            if isinstance(found := compiled(shapes.program, text), Filled):
                ways["some" if compile_.texts else "all"] += 1
            elif found is not None:
                ways["none"] += 1
            assert outcome(lambda text, _, found=found: found or compile_anew(text, DEVICE), text) == outcome(
                compile_anew, text
            ), text
    assert min(ways.values()) > 20, ways


def yields_bool(text):
    program = compiled(compile_anew, text)
    return program is not None and (program.result_type == types.BOOL or program.result_type.dynamic)


def compiled(compile_, text):
    try:
        return compile_(text, DEVICE)
    except CompileError:
        return None


@pytest.mark.parametrize(
    "text",
    [
        f'{A}.model == "a" && {A}.nope == 1',
        f'{A}.model == "a" && {A}.cores',
        f"{A}.cores && {A}.ecc",
        f"{A}.ecc && {A}.cores",
        f"{A}.ecc && [][0]",
        f'{A}.model == "a" && "x"',
        f'"x" && {A}.model == "a"',
        f'{A}.model == "a" && {A}.model +',
        f'{A}.model == "a" &&',
        f'&& {A}.model == "a"',
        f'{A}.model == "a" && && {A}.ecc',
        f'{A}.model == "a" &&& {A}.ecc',
        f'{A}.model == "a" && )(',
        f'{A}.model == "a") && ({A}.ecc',
        f'({A}.model == "a") && ({A}.ecc',
        f'{A}.model == "a" && undeclared',
        f'{A}.model == "a" && {A}.model.matches("(")',
        f'{A}.model == "a" && int("x") == 1',
        f'{A}.model == "a" || {A}.ecc && {A}.ecc',
        f'{A}.model == "a" && {A}.ecc ? {A}.ecc && false : true',
        f'{A}.?model == optional.of("a") && {A}. ?ecc.orValue(false)',
        f'({A}.model == "a" && {A}.ecc) && {A}.ecc',
        f'{A}.model == "a" && ({A}.ecc && {A}.ecc)',
        f'{A}.model == "a" && {A}.exists(k, k == "a" && k != "b")',
        f'{A}.model == "a" && {A}.model == "a" && {A}.model == "b"',
        f'{A}.model == "a" && device.driver == "\x01"',
        f'{A}.model == "a" && device.driver == \x01',
        f'{A}.model == "a" && {A}.model == """a"""',
        f'{A}.model == "a" && {A}.model == "a""b"""',
        f'{A}.model == "a" && {A}.cores > -0 && {A}.cores > -5 && {A}.cores > - 7',
    ],
)
def test_terms_and_errors_are_found_where_they_are(text):
    """Beside terms that are known, and again when all of them are."""
    shapes = Shapes(compile_anew)
    for known_text in (f'{A}.model == "b" && {A}.ecc', f'{A}.model == """a"""', f'device.driver == "b" && {A}.ecc'):
        shapes.program(known_text, DEVICE)
    for _ in range(3):
        compiled(shapes.program, text)
        assert outcome(shapes.program, text) == outcome(compile_anew, text)


def test_a_new_combination_of_known_terms_compiles_nothing():
    compile_ = Counted()
    shapes = Shapes(compile_)
    shapes.program(f'device.driver == "a" && {A}.model == "a"', DEVICE)
    shapes.program(f"{A}.cores >= 5 && !{A}.ecc && ({A}.cores < 1 || {A}.cores > 2)", DEVICE)
    compile_.texts.clear()
    program = shapes.program(
        f'!{A}.ecc && {A}.model == "X100"&&({A}.cores < 3 || {A}.cores > 9)\n&& device.driver == "gpu.test"',
        DEVICE,
    )
    assert program.result_type == types.BOOL
    assert not program.matches(plain())
    assert program.estimated_cost == compile_anew(program.expression, DEVICE).estimated_cost
    assert program.reads == compile_anew(program.expression, DEVICE).reads
    assert compile_.texts == []
    shapes.program(f'{A}.model == "X200" && {A}.other in ["b"]', DEVICE)
    assert compile_.texts == [f'{A}.other in ["b"]']


def known(shapes, text):
    try:
        return isinstance(shapes.program(text, DEVICE), Filled)
    except CompileError:
        return False


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
        shapes.program(f'{A}.a.a{index} == "x"', DEVICE)
        shapes.program(f'{A}.model.matches("{index}")', DEVICE)
        shapes.program(f'{A}.a{index}.matches("{index}")', DEVICE)
    assert len(shapes._terms) <= 64
    assert all(len(terms) <= 4 for terms in shapes._terms.values())
    shapes.clear()
    assert not shapes._terms


@pytest.mark.parametrize(
    "text",
    [
        "device.attributes['a'].x{0} == " + "[" * 200 + "1" + "]" * 200,
        "device.attributes['a'].x.x{0} == " + "[" * 200 + "1" + "]" * 200,
        "device.attributes['a'].x{0} == " + "[" * 200 + "{0}" + "]" * 200,
        " && ".join([f"device.attributes['a'].x{{0}}y{index} == 'b'" for index in range(16)]),
        " && ".join([f"device.attributes['a'].x.x{{0}}y{index} == 'b'" for index in range(16)]),
        " && ".join([f"'b' in [{{0}}, device.attributes['a'].y{index}]" for index in range(16)]),
    ],
)
def test_what_is_remembered_of_hostile_texts_is_small(text):
    shapes = Shapes(compile_anew)
    tracemalloc.start()
    try:
        for index in range(100):
            for _ in range(2):
                program = shapes.program(text.format(index), DEVICE)
            program._compile_fast()
            assert program.estimated_cost + len(program.reads.attributes) > 0
        del program
        assert sum(term.size for terms in shapes._terms.values() for term in terms) <= shapes._size <= 32 * 1024
        assert tracemalloc.get_traced_memory()[0] < 16 * 2**20
    finally:
        tracemalloc.stop()


def test_texts_are_remembered_by_threads_at_once():
    shapes = Shapes(compile_anew)

    def compile_many(start):
        for index in range(start, start + 150):
            text = f'{A}.a.a{index % 200} == "x" && {A}.a{index % 7}.matches("{index}")'
            assert shapes.program(text, DEVICE).expression == text

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(compile_many, start) for start in range(0, 400, 100)]:
            done.result()
    assert sum(term.size for terms in shapes._terms.values() for term in terms) <= shapes._size <= 32 * 1024
    assert len(shapes._terms) <= 64


def test_selectors_are_filled_in():
    SHAPES.clear()
    assert compile_selector(f'{A}.shape_test == "a"').expression == f'{A}.shape_test == "a"'
    assert isinstance(compile_selector(f'{A}.shape_test == "b"'), Filled)
    for text in ("[1].map(x, x == 5)", "[1].map(x, x == 6)"):
        with pytest.raises(CompileError, match="must evaluate to bool") as refused:
            compile_selector(text)
        assert (refused.value.text, refused.value.offset) == (text, 0)
