"""Where texts are cut, and which of their words are literals."""

import pytest

from dray.cel.forms import names_of, parts_of, shape_of


def test_cut_into_terms():
    def cut(text):
        return [part.form for part in parts_of(shape_of(text).form)]

    assert cut("a && b&&c") == ["a", "b", "c"]
    assert cut("f(a && b) && [a && b][0]") == ["f(a && b)", "[a && b][\x02]"]
    assert cut("a && (b || c ? d : e) && f.?g") == ["a", "(b || c ? d : e)", "f.?g"]
    assert cut("a[0].b && (a[0].b || c) && a[a[0].b && c].?d") == [
        "a[\x02\x03",
        "(a[\x02\x03 || c)",
        "a[a[\x02\x03 && c].?d",
    ]
    for whole in ("a[0].b && a[0].b || c", "a[0].b && a[b", "a[0].b ? c : d && e"):
        assert cut(whole) == [whole.replace("0].b", "\x02\x03")]
    for whole in ("a", "a && b || c", "a && b ? c : d", "a && (b", "a) && b", "&&".join("abcdefghijklmnopq")):
        assert cut(whole) == [whole]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a[b].c", ["c"]),
        ("a[b].c.d[0]._e1 && [f].g", ["c", "_e1", "g"]),
        ("a[b].c\n (d)", []),
        ("a[b].c(d)", []),
        ("a[b].?c", []),
        ("a[b] .c", []),
        ("a[b]. c", []),
        ("a[b].1c", []),
        ("a[b].r'c'", []),
        ("a[b].in && a[b].inner", ["inner"]),
        ("a[b].true && a[b].for && a[b].device", []),
        ("'a[b].c' + a['].d'].e", ["e"]),
    ],
)
def test_what_is_a_name(text, names):
    shape = shape_of(text)
    assert names_of(shape.literals) == tuple([f"].{name}" for name in names])
    assert shape.text == text
    assert [
        text[offset : offset + len(literal)] for offset, literal in zip(shape.offsets(), shape.literals, strict=True)
    ] == shape.literals


@pytest.mark.parametrize("text", ["a == '\x01'", "a == '\x02'", "a == '\x03'", "a[b].`c`", "a[b].c // d", "a" * 1025])
def test_what_has_no_shape(text):
    assert shape_of(text) is None
