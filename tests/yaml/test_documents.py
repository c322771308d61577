from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dray.yaml import documents
from dray.yaml.documents import parse
from dray.yaml.text import ManifestError


def values(data: str) -> list[Any]:
    return [document.value for document in parse(data.encode())]


def refusal(data: bytes) -> str:
    started = time.monotonic()
    with pytest.raises(ManifestError) as caught:
        parse(data)
    assert time.monotonic() - started < 30
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_several_documents_and_empty_ones() -> None:
    assert values("a: 1\n---\n# nothing\n---\n- x\n...\n") == [{"a": 1}, ["x"]]
    assert values("") == []


def test_quotes_and_tags_make_text() -> None:
    assert values("""{a: "1", b: '1', c: !!str 1, d: ! 1, e: !!int 1}""") == [
        {"a": "1", "b": "1", "c": "1", "d": "1", "e": 1}
    ]


def test_keys_become_strings() -> None:
    assert values("1: a\ntrue: b\n1.5: c\n") == [{"1": "a", "true": "b", "1.5": "c"}]


def test_aliases_share_and_merge_keys_yield_to_what_is_written_after_them() -> None:
    assert values("a: &a {k: v, l: [1]}\nb:\n  <<: *a\n  k: w\nc:\n  <<: [{k: 1}, *a]\n") == [
        {"a": {"k": "v", "l": [1]}, "b": {"k": "w", "l": [1]}, "c": {"k": 1, "l": [1]}}
    ]


def test_the_first_document_with_its_duplicate_keys() -> None:
    text = "a: 1\nb: {c: 1, c: 2}\na: 3\nd: {k: 1, <<: {k: 2}, <<: {l: 3}}\n---\nsecond: 1\n"
    value, duplicates = documents.first(text.encode())
    assert value == {"a": 3, "b": {"c": 2}, "d": {"k": 2, "l": 3}}
    assert duplicates == [
        'line 2: key "c" already set in map',
        'line 3: key "a" already set in map',
        'line 4: key "k" already set in map',
    ]
    assert documents.first(b"# nothing") == (None, [])
    assert len(documents.first(b"a: 1\n" * 1000)[1]) == 100


def test_merged_fields_have_the_place_of_their_anchor() -> None:
    place = parse(b"a: &a {k: v}\nb:\n  <<: *a\n")[0].place
    assert (place.find("b.k").line, place.find("b.k").column) == (1, 8)


def test_a_quoted_merge_key_is_a_key() -> None:
    assert values('"<<": 1') == [{"<<": 1}]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: {b: [1, 2\n", "1:13: not YAML: .*truncated"),
        (b'a: "b', "1:6: not YAML: .*truncated"),
        (b"a:\n\tb: 1\n", "2:1: not YAML: .*indent with spaces, not tabs"),
        (b"a: b: c\n", "1:5: not YAML: mapping values are not allowed"),
        (b'{"a": 1}\n{"b": 2}\n', "2:1: not YAML: .*put --- between documents"),
        (b"a: 1\nb: 2\na: 3\n", "3:1: duplicate key 'a', first on line 1: remove one"),
        (b'{"a": 1, "a": 2}', "1:10: duplicate key 'a'"),
        (b"1: a\n'1': b\n", "2:1: duplicate key '1'"),
        (b"a: {<<: {b: 1}, <<: {c: 1}}", "1:17: duplicate key '<<'"),
        (b"a: {<<: 1}", "1:9: << merges mappings"),
        (b"a:\n  k: 1\n  <<: {k: 2}\n", "3:7: << replaces the key 'k' of line 2: write << first"),
        (b"? [a]\n: b\n", "1:3: a key must be a plain string"),
        (b"a: &a b\n*a : c\n", "2:1: a key must be a plain string"),
        (b"~: b", "1:1: None cannot be a key"),
        (b"a: *b", r"1:4: the alias \*b has no anchor"),
        (b"a: &a [*a]", r"1:8: the alias \*a stands inside its own anchor"),
        (b"a: .nan", "1:4: .nan is not a number in JSON"),
        (b"a: !!binary aGk=", "1:4: the tag .*binary has no meaning"),
        (b"a: !Ref b", "1:4: the tag !Ref has no meaning"),
        (b"a: !!set {b}", "1:4: the tag .*set has no meaning"),
    ],
)
def test_refuses_with_place_and_advice(data: bytes, message: str) -> None:
    assert re.match(message, refusal(data).lstrip(":"))


def test_refuses_deep_nesting() -> None:
    assert "nested more than 100 levels" in refusal(b"[" * 100_000)
    assert "nested more than 100 levels" in refusal(b"- " * 100_000)
    assert "nested more than 100 levels" in refusal(b'{"a":' * 100_000)


def test_refuses_depth_made_of_aliases() -> None:
    chain = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 200))
    assert "nested more than 100 levels" in refusal(chain.encode())


def test_refuses_aliases_that_explode() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
    )
    assert "excessive aliasing: more than 500,000 nodes, aliases counted in full" in refusal(bomb.encode())


def test_refuses_merges_that_explode() -> None:
    levels = "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 25))
    assert "excessive aliasing" in refusal(f"a0: &a0 {{k: v}}\n{levels}".encode())


def test_refuses_text_that_aliases_repeat() -> None:
    long = "x" * 400_000
    assert "excessive aliasing" in refusal(f"a: &a {long}\nb: [{','.join(['*a'] * 100)}]\n".encode())
    assert "excessive aliasing" in refusal(f"a: &a [{long}]\nb: [{','.join(['*a'] * 100)}]\n".encode())


def test_refuses_too_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_NODES", 1000)
    assert "more than 1,000 nodes" in refusal(b"- a\n" * 1001)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=20), JSON, max_size=4), st.booleans(), st.sampled_from([None, 2, "\t"]))
def test_json_reads_as_json(value: dict[str, Any], ascii_only: bool, indent: int | str | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    if ascii_only or text.isprintable():
        assert values(text) == [value]


@pytest.mark.parametrize("name", ["SafeLoader", "CSafeLoader"])
def test_both_parsers_give_the_same(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if not hasattr(yaml, name):
        pytest.skip("PyYAML was built without libyaml")
    monkeypatch.setattr(documents, "_LOADER", getattr(yaml, name))
    [document] = parse(b"a:\n- b: 1\n- c: |\n    x\n    y\nd: {e: 2}\n")
    assert document.value == {"a": [{"b": 1}, {"c": "x\ny\n"}], "d": {"e": 2}}
    place = document.place.find("a[1].c")
    assert (place.line, place.column) == (3, 3)
    assert "truncated" in refusal(b"a: [1, 2")
