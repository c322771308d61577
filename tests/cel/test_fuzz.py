"""Random expressions: nothing but the language's own errors escapes, and the two variants agree."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.cel import DEVICE, CompileError, EvaluationError
from dray.cel.macros import MACROS
from dray.cel.selector import compile_device_expression

from .fixtures import DRIVER, lists

A = f'device.attributes["{DRIVER}"]'
ATOMS = [
    *("1", "0", "-1", "2u", "1.5", '"a"', '"é"', 'b"x"', "true", "false", "null", "[]", "{}", "[1, 2]", '["a"]'),
    *('{"a": 1}', "{1: 2}", "{true: 1}", "device", "device.driver", "device.attributes", "device.capacity", A),
    *(f"{A}.model", f"{A}.cores", f"{A}.ecc", f"{A}.tags", f"{A}.nums", f"{A}.fw", f"{A}.nope", f"{A}.?nope"),
    *('quantity("1Gi")', 'semver("1.0.0")', 'ip("1.2.3.4")', 'cidr("10.0.0.0/8")', 'url("http://a/b")'),
    *('duration("1s")', "timestamp(0)", "optional.of(1)", "optional.none()", "int", "type(1)", "dyn(1)", 'dyn("a")'),
    *("9223372036854775807", 'format.named("uri")', "0.0 / 0.0", "x", "y"),
]
BINARY = ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in"]
FUNCTIONS = [
    (name, overload.member, len(overload.params))
    for name, function in DEVICE.functions.items()
    for overload in function.overloads
    if name[0] not in "_!@-" and not name.startswith("cel.")
]
LOOPS = [(name, count) for name, _, count in MACROS if name not in ("has", "bind")]


def expression(source, depth):
    """A random expression, often ill-typed."""
    if depth == 0:
        return source.choice(ATOMS)
    form = source.choice([_binary, _call, _call, _loop, _conditional, _index, _literal, _binary])
    return form(source, lambda: expression(source, depth - source.randint(1, 2) if depth > 1 else 0))


def _binary(source, inner):
    return f"({inner()} {source.choice(BINARY)} {inner()})"


def _call(source, inner):
    name, member, count = source.choice(FUNCTIONS)
    operands = [inner() for _ in range(count)]
    target = f"{operands.pop(0)}." if member else ""
    return f"{target}{name}({', '.join(operands)})"


def _loop(source, inner):
    name, count = source.choice(LOOPS)
    two = name.startswith("transform") or (count == 3 and name != "map")
    names = ["x", "y"] if two else ["x"]
    return f"{inner()}.{name}({', '.join(names + [inner() for _ in range(count - len(names))])})"


def _conditional(source, inner):
    return source.choice([f"({inner()} ? {inner()} : {inner()})", f"cel.bind(x, {inner()}, {inner()})"])


def _index(source, inner):
    return source.choice([f"{inner()}[{inner()}]", f"{inner()}[?{inner()}]", f"{inner()}.a", f"has({inner()}.a)"])


def _literal(source, inner):
    return source.choice([f"[{inner()}, {inner()}]", f"{{{inner()}: {inner()}}}", f"!{inner()}", f"-{inner()}"])


def outcome(text):
    """None when refused; else the value, or the error's class."""
    try:
        program = compile_device_expression(text)
    except CompileError:
        return None
    device = lists()
    try:
        result = repr(program.evaluate(device).value)
    except EvaluationError as error:
        result = type(error)
    fast = program._compile_fast()
    if fast is not None:
        try:
            quick = repr(fast(device))
        except (EvaluationError, LookupError):
            return result
        assert quick == result, text
    return result


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions(seed):
    source = random.Random(seed)
    seen = [outcome(expression(source, source.randint(1, 4))) for _ in range(2500)]
    assert sum(one is not None for one in seen) > 100


@settings(max_examples=300, deadline=None)
@given(
    st.text(alphabet=st.sampled_from(list("device.attributes[]\"'`(){}?:!&|=<>+-*/%,\\ \nrbux01.e9éin")), max_size=60)
)
def test_random_text(text):
    outcome(text)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*ATOMS, *BINARY, "(", ")", "[", "]", ".", "?", ":", ",", "{", "}"]), max_size=14))
def test_random_tokens(tokens):
    outcome(" ".join(tokens))


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "device.__class__",
        "().__class__",
        "device.driver.__len__()",
        *("K1", "E", "run", "v1", "c"),
        "[1].all(c, c == 1) && c == 2",
        "cel.bind(LIMIT, 5, LIMIT) == LIMIT",
    ],
)
def test_no_way_to_python_names(text):
    with pytest.raises(CompileError):
        compile_device_expression(text)


@pytest.mark.parametrize("name", ["c", "run", "E", "type", "LIMIT", "t1", "v1", "resolve"])
def test_variables_do_not_meet_those_of_the_compiled_code(name):
    program = compile_device_expression(f"[1, 2].map({name}, {name} + 1) == [2, 3] && cel.bind({name}, 7, {name} == 7)")
    assert program.evaluate(lists()).value is True
    assert program.matches(lists())
