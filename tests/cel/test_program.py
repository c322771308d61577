import pytest

from dray.cel import CostLimitExceeded, Device, EvaluationError, Reads, compile_derived, compile_selector
from dray.cel.errors import InternalFailure
from dray.cel.selector import compile_device_expression

from .fixtures import lists, plain

A = 'device.attributes["gpu.acme.test"]'


def test_a_result_that_is_no_bool_is_an_error():
    with pytest.raises(EvaluationError, match="string could not be converted to bool"):
        compile_selector(f"{A}.model").matches(plain())


def test_a_broken_device_fails_every_evaluation():
    for attribute in ({}, {"version": "not-semver"}, {"int": "3"}, {"strings": "x"}):
        device = Device("d", {"attributes": {"bad": attribute}})
        with pytest.raises(EvaluationError, match="attribute bad"):
            compile_selector("true").matches(device)
    with pytest.raises(EvaluationError, match="capacity bad"):
        compile_selector("true").matches(Device("d", {"capacity": {"bad": {"value": "1K"}}}))
    with pytest.raises(EvaluationError, match="must be a map"):
        compile_selector("true").matches(Device("d", {"attributes": ["x"]}))


def test_the_first_value_field_counts():
    device = Device("d", {"attributes": {"x": {"int": 1, "ints": [5]}}})
    assert compile_selector('device.attributes["d"].x == [5]').matches(device)


def test_errors_know_their_cost():
    with pytest.raises(EvaluationError) as failed:
        compile_selector(f"{A}.missing == 1").evaluate(plain())
    assert failed.value.cost == 5


def test_over_the_limit():
    ten = "[1,2,3,4,5,6,7,8,9,10]"
    loops = "".join(f"{ten}.all({name}, " for name in "abcdefg")
    program = compile_selector(f"{loops}true{')' * 7}")
    for ask in (program.matches, program.evaluate):
        with pytest.raises(CostLimitExceeded) as stopped:
            ask(plain())
        assert stopped.value.cost == 1_000_001


def test_an_unusual_device_is_counted_exactly():
    """The estimate assumes sizes that this device does not keep, so the fast variant must not be used."""
    device = Device("d", {"attributes": {"x": {"string": "a" * 3_000_000}}})
    assert not device.ordinary
    program = compile_selector("lists.range(10).all(i, device.attributes['d'].x + 'b' != '')")
    assert program.estimated_cost < 1_000_000
    with pytest.raises(CostLimitExceeded):
        program.matches(device)


@pytest.mark.parametrize(
    ("expression", "attribute"),
    [
        (f'{A}.model + "-" + string({A}.cores)', "X100-64"),
        (f"{A}.cores % 2 == 0", True),
        (f"{A}.nums", [1, 2, 3]),
        ("[]", []),
    ],
)
def test_derived_attributes(expression, attribute):
    assert compile_derived(expression).evaluate(lists()).value == attribute


@pytest.mark.parametrize(
    ("expression", "place"),
    [
        (f"{A}.cores / 0 == 1", f"{A}.cores ".__len__()),
        (f"true && {A}.missing == 1", f"true && {A}".__len__()),
        ("true", None),
        (f"{A}.missing == 1 || true", None),
        ("[1, 0].map(x, 1 / x) == []", len("[1, 0].map(x, 1 ")),
    ],
)
def test_locate(expression, place):
    assert compile_selector(expression).locate(plain()) == place


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        ("true", Reads()),
        ("device.driver == 'x'", Reads(driver=True)),
        ("device.allowMultipleAllocations", Reads(allow_multiple_allocations=True)),
        (f"{A}.model == 'x'", Reads(frozenset({("gpu.acme.test", "model")}))),
        (f"{A}[?'model'].orValue('') == 'x'", Reads(frozenset({("gpu.acme.test", "model")}))),
        (f"has({A}.model)", Reads(frozenset({("gpu.acme.test", "model")}))),
        (f"'model' in {A}", Reads(frozenset({("gpu.acme.test", "model")}))),
        ("'d' in device.attributes", Reads(frozenset({("d", None)}))),
        (f"{A}.exists(k, k == 'x')", Reads(frozenset({("gpu.acme.test", None)}))),
        (f"cel.bind(a, {A}, a.model == 'x')", Reads(frozenset({("gpu.acme.test", None)}))),
        ("device.capacity['c'].m == quantity('1')", Reads(capacities=frozenset({("c", "m")}))),
        (f"{A}[device.driver] == 1", Reads(frozenset({("gpu.acme.test", None)}), driver=True)),
    ],
)
def test_reads(expression, reads):
    assert compile_selector(expression).reads == reads


@pytest.mark.parametrize(
    "expression",
    [
        "device == device",
        "device.attributes.size() == 1",
        "device.attributes[device.driver].x == 1",
        "[1].all(device, device == 1)",
        "cel.bind(d, device, d.driver == 'x')",
    ],
)
def test_reads_everything(expression):
    assert compile_selector(expression).reads.everything


@pytest.mark.parametrize(
    ("expression", "value", "cost"),
    [
        ("cel.bind(x, 1 / 0, true)", True, 0),
        ("cel.bind(x, [1].map(y, y), true || x == [])", True, 0),
        ("cel.bind(x, [1].map(y, y), false || x == [])", False, 15),
        ("[1, 2, 3].map(x, x * 2)", [2, 4, 6], 43),
        ("[1, 2, 3].filter(x, x > 1)", [2, 3], 33),
        ("true ? device.driver : ''", "gpu.acme.test", 1),
        ("[1, 2][0]", 1, 2),
        ("{'a': 1}.a", 1, 2),
        ("'a' in ['a', device.driver]", True, 14),
    ],
)
def test_costs_follow_cel_go(expression, value, cost):
    assert compile_device_expression(expression).evaluate(plain()) == (value, cost)


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        (f"{A}.fw in ['2.5.1'] || true", 4),
        (f"{A}.missing.distinct() == [] || true", 4),
    ],
)
def test_panics_are_not_absorbed(expression, cost):
    """Where Kubernetes panics inside an evaluation, nothing can save it."""
    with pytest.raises(InternalFailure) as failed:
        compile_device_expression(expression).evaluate(plain())
    assert failed.value.cost == cost
    with pytest.raises(InternalFailure):
        compile_device_expression(expression).matches(plain())


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("'a'.replace('a', string(1 / 0))", 3),
        ("string(1 / 0).replace('a', 'b')", 2),
        ("(1 / 0) + size(device.driver)", 5),
        ("[1 / 0, size(device.driver)]", 11),
        ("[1][5] == 1 ? true : false", 3),
        ("dyn(device.driver).nope.nope", 5),
    ],
)
def test_costs_of_failures_follow_cel_go(expression, cost):
    with pytest.raises(EvaluationError) as failed:
        compile_device_expression(expression).evaluate(plain())
    assert failed.value.cost == cost
