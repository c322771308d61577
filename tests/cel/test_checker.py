import pytest

from dray.cel import DEFAULT_GATES, DEVICE, CompileError, compile_selector, device_environment
from dray.cel.selector import compile_device_expression, compile_expression

A = 'device.attributes["d"]'


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("1", "int"),
        ("[]", "list(dyn)"),
        ("[1, 2]", "list(int)"),
        ("[[], [1]]", "list(list(int))"),
        ("{'a': [1u]}", "map(string, list(uint))"),
        ("[dyn(1), 'a']", "list(dyn)"),
        ("true ? 1 : 2", "int"),
        ("true ? dyn(1) : 2", "dyn"),
        (f"{A}.x", "dyn"),
        (f"{A}.?x", "optional_type(dyn)"),
        (f"{A}.?x.?y", "optional_type(dyn)"),
        ('device.capacity["d"].?m.orValue(quantity("1"))', "kubernetes.Quantity"),
        ("[1, 2].map(x, string(x))", "list(string)"),
        ("{'a': 1}.map(k, k)", "list(string)"),
        ("{'a': 1}.transformMap(k, v, v + 1)", "map(string, int)"),
        ("[1].transformList(i, v, i + v)", "list(int)"),
        ("[1, 2].sortBy(x, -x)", "list(int)"),
        ("optional.of(1).optMap(x, [x])", "optional_type(list(int))"),
        ("cel.bind(x, 1, x + 1)", "int"),
        ("type(1)", "type(int)"),
        ("[?optional.of(1)]", "list(int)"),
        ("[[1], [2]].flatten()", "list(int)"),
        ("timestamp('2020-01-01T00:00:00Z') - timestamp(0)", "google.protobuf.Duration"),
        (f"{A}.x + 1", "int"),
        (f"{A}.x + {A}.y", "dyn"),
    ],
)
def test_types(expression, type_):
    assert str(compile_device_expression(expression).result_type) == type_


@pytest.mark.parametrize(
    ("expression", "message", "column"),
    [
        ("device.name", "undefined field 'name'", 7),
        ("nope", "undeclared reference to 'nope'", 1),
        ("nope(1)", "undeclared reference to 'nope'", 5),
        ("1 + 'a'", "found no matching overload for '_+_' applied to '(int, string)'", 3),
        ("'a'.startsWith(1)", "found no matching overload for 'startsWith' applied to 'string.(int)'", 15),
        ("[1, 'a']", "expected type 'int' but found 'string'", 5),
        ("{'a': 1, 'b': 'c'}", "expected type 'int' but found 'string'", 15),
        ("1 && true", "found no matching overload for '_&&_'", 3),
        ("1.all(x, true)", "cannot be range of a comprehension", 1),
        ("'a'.b", "type 'string' does not support field selection", 4),
        ("[1].exists(x, x.y == 1)", "type 'int' does not support field selection", 16),
        ("x.all(y, true) && y", "undeclared reference to 'x'", 1),
        ("[1].all(x, true) && x", "undeclared reference to 'x'", 21),
        ("Foo{a: 1}", "undeclared reference to 'Foo'", 4),
        ("[?1]", "expected type 'optional_type(int)' but found 'int'", 3),
        ("'a'.matches('[')", "invalid matches argument", 13),
        ("duration('x') > duration('1s')", "program instantiation failed", 9),
    ],
)
def test_refusals_name_the_place(expression, message, column):
    with pytest.raises(CompileError) as refused:
        compile_device_expression(expression)
    assert message in refused.value.message
    assert refused.value.column == column


def test_feature_gates_decide_what_exists():
    multiple = "device.allowMultipleAllocations"
    assert compile_selector(multiple, env=DEFAULT_GATES)
    with pytest.raises(CompileError, match="undefined field"):
        compile_selector(multiple, env=device_environment(consumable_capacity=False))
    for expression in (f"{A}.tags.includes('x')", f"{A}.tags.exists(t, t == 'x')"):
        assert compile_selector(expression, env=DEVICE)
        with pytest.raises(CompileError):
            compile_selector(expression, env=DEFAULT_GATES)


def test_plain_environment_mixes_types_in_literals():
    assert str(compile_expression("[1, 'a']", {}).result_type) == "list(dyn)"


def test_too_long():
    with pytest.raises(CompileError, match="too long"):
        compile_selector("'" + "x" * 10240 + "' == ''")
