"""Templates of `-o jsonpath`: the answers are those of kubectl."""

from __future__ import annotations

from typing import Any

import pytest

from dray.cli.json_path_template import TemplateError, parse, render

PODS: dict[str, Any] = {
    "items": [
        {"metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "x"}}, "spec": {"nodeName": "n1", "cpus": 2}},
        {"metadata": {"name": "b"}, "spec": {"taints": [{"key": "k", "value": "v"}], "on": True, "none": None}},
    ],
}


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        ("{.items[0].metadata.name}", "a"),
        ("{$.items[0].metadata.name}", "a"),
        (".items[0].metadata.name", "a"),
        ("items[0].metadata.name", "a"),
        ("{.items[*].metadata.name}", "a b"),
        ("{.items[0].spec.cpus}", "2"),
        ("{.items[1].spec.on}{.items[1].spec.none}", "true"),
        ("{.items[1].spec.taints[0]}", '{"key":"k","value":"v"}'),
        (r"{.items[0].metadata.labels.app\.kubernetes\.io/name}", "x"),
        ("{.items[?(@.metadata.name=='b')].spec.taints[0].key}", "k"),
        ('{.items[?(@.metadata.name=="b")].spec.taints[0].key}', "k"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.spec.nodeName}{"\\n"}{end}', "a\tn1\nb\t\n"),
        ("{range .items[*]}{range .spec.taints[*]}{.key}={.value}{end},{end}", ",k=v,"),
        ("name: {.items[0].metadata.name}{'!'}", "name: a!"),
        ("{.items[0].spec.missing}", ""),
        ('{"}"}', "}"),
    ],
)
def test_templates(template: str, printed: str) -> None:
    assert render(parse(template), PODS) == printed


def test_long_lists_are_printed_in_full() -> None:
    numbers = list(range(5000))
    assert render(parse("{.items[*]}"), {"items": numbers}).split() == [str(number) for number in numbers]


@pytest.mark.parametrize("template", ["{", "}", "{}", "{.a}}", "{range}{end}", "{range .a[*]}", "{.a[x]}", '{"\\q"}'])
def test_what_is_not_a_template(template: str) -> None:
    with pytest.raises(TemplateError):
        parse(template)
