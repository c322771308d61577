import pytest

from dray.cel.errors import CompileError
from dray.cel.parser import MAX_NESTING, parse, qualified_name
from dray.cel.selector import compile_expression
from dray.cel.syntax import Call, Comprehension, Ident, ListNode, Literal, MapNode, Node, Select
from dray.cel.values import Uint


def shape(node: Node) -> object:
    """A tree as nested tuples."""
    match node:
        case Literal():
            return node.value
        case Ident():
            return node.name
        case Select():
            return ("has" if node.test else ".", shape(node.operand), node.field)
        case Call():
            return (node.function, *(shape(operand) for operand in node.operands()))
        case ListNode():
            return [shape(element) for element in node.elements]
        case MapNode():
            return {shape(key): shape(value) for key, value in node.entries}
        case Comprehension():
            return ("loop", node.macro, shape(node.range))
    raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", ("_+_", 1, ("_*_", 2, 3))),
        ("1 - 2 - 3", ("_-_", ("_-_", 1, 2), 3)),
        ("a || b && c == d", ("_||_", "a", ("_&&_", "b", ("_==_", "c", "d")))),
        ("a && b && c", ("_&&_", "a", "b", "c")),
        ("a ? b : c ? d : e", ("_?_:_", "a", "b", ("_?_:_", "c", "d", "e"))),
        ("!!a", "a"),
        ("!a", ("!_", "a")),
        ("-a", ("-_", "a")),
        ("--1", ("-_", -1)),
        ("-9223372036854775808", -(2**63)),
        ("a.b[0].c(1)", ("c", ("_[_]", (".", "a", "b"), 0), 1)),
        ("a.?b[?c]", ("_[?_]", ("_?._", "a", "b"), "c")),
        ("has(a.b)", ("has", "a", "b")),
        ("a in [1, 2,]", ("@in", "a", [1, 2])),
        ("{'a': 1, 'b': 2,}", {"a": 1, "b": 2}),
        ("{'const': 1}.const", (".", {"const": 1}, "const")),
        ("a.`b-c/d`", (".", "a", "b-c/d")),
        ("x.all(y, y)", ("loop", "all", "x")),
        ("cel.bind(x, 1, x)", ("loop", "bind", [])),
        ("bind.bind(x, 1, x)", ("bind", "bind", "x", 1, "x")),
        (".a.b", (".", ".a", "b")),
        ("0xFF // a comment", 255),
        ("12u", Uint(12)),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("r'\\n'", "\\n"),
        ("'\\x41\\u00e9\\U0001F600\\101'", "Aé😀A"),
        ("'''a\n'b'''", "a\n'b"),
        ("b'\\xff\\u00e9'", None),
        ("b'é'", "é".encode()),
    ],
)
def test_tree(text, expected):
    if expected is None:
        with pytest.raises(CompileError):
            parse(text)
    else:
        assert shape(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("", 1, 1),
        ("1 +", 1, 4),
        ("a..b", 1, 3),
        ("true && && true", 1, 9),
        ("(a", 1, 3),
        ("a = b", 1, 3),
        ("a\n  ^", 2, 3),
        ("'abc", 1, 1),
        ("a ? b ? c : d : e", 1, 7),
        ("for", 1, 1),
        ("9223372036854775808", 1, 1),
        ("18446744073709551616u", 1, 1),
        ("has(a)", 1, 5),
        ("[1].all(1, true)", 1, 9),
        ("[1].all(x, x, true)", 1, 12),
        ("'\\q'", 1, 1),
        ("'\\ud800'", 1, 1),
        ("{1: 2", 1, 6),
        ("!-1", 1, 2),
        ("a.in", 1, 3),
    ],
)
def test_errors_name_the_place(text, line, column):
    with pytest.raises(CompileError) as refused:
        parse(text)
    assert (refused.value.line, refused.value.column) == (line, column)


def test_rendering_puts_a_caret_under_the_place():
    with pytest.raises(CompileError) as refused:
        parse("true &&\n  (1 +")
    assert refused.value.render().splitlines()[1:] == [" |   (1 +", " | ......^"]


def test_nesting_is_limited_but_length_is_not():
    deepest = MAX_NESTING - 1
    assert compile_expression("(" * deepest + "1" + ")" * deepest, {}).run().value == 1
    assert compile_expression(" + ".join("1" * 2000), {}).run().value == 2000
    with pytest.raises(CompileError, match="recursion limit"):
        compile_expression("(" * 5000 + "1" + ")" * 5000, {})


def test_qualified_name():
    assert qualified_name(parse("a.b.c")) == "a.b.c"
    assert qualified_name(parse("a.b().c")) is None
    assert qualified_name(parse("has(a.b)")) is None
