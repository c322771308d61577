"""`-o` offers the same formats everywhere, and JSON and YAML hold the same document."""

from __future__ import annotations

import json
from collections.abc import Callable

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from dray.cli.output_formats import OutputFormat, output_option, structured
from tests.cli.test_help import COMMANDS, HELPS

Dray = Callable[..., Result]


def formats(path: str) -> tuple[str, ...]:
    for parameter in HELPS[path][0].params:
        if isinstance(parameter, click.Option) and "-o" in parameter.opts and isinstance(parameter.type, click.Choice):
            return tuple(parameter.type.choices)
    return ()


@pytest.mark.parametrize("path", [path for path in COMMANDS if formats(path)])
def test_every_command_with_formats_offers_json_and_yaml(path: str) -> None:
    assert {"json", "yaml", "jsonpath=TEMPLATE"} <= set(formats(path))
    assert next(iter(formats(path))) in ("text", "table", "yaml")


@pytest.mark.parametrize(("given", "received"), [("text", "table"), ("table", "table"), ("json", "json")])
def test_text_and_table_mean_the_same(given: str, received: str) -> None:
    @click.command()
    @output_option("table", "json")
    def shown(output: str) -> None:
        click.echo(output)

    assert CliRunner().invoke(shown, ["-o", given]).output == f"{received}\n"
    assert CliRunner().invoke(shown, ["-o", "xml"]).exit_code == 2
    assert OutputFormat(("text",)).convert("table", None, None) == "text"


@pytest.mark.parametrize("path", ["dray get", "dray devices", "dray queue", "dray user list", "dray fleet list"])
def test_lists_of_named_things_offer_their_names(path: str) -> None:
    assert "name" in formats(path)


def test_wide_is_the_table_of_a_command_that_has_no_more_columns(run: Dray) -> None:
    assert run("fleet", "list", "-o", "wide").stdout == run("fleet", "list").stdout
    assert run("fleet", "list", "-o", "name").stdout.splitlines()[0] in run("fleet", "list").stdout
    assert run("convert", "-o", "wide", "examples/legacy").exit_code == 2


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("", "jsonpath needs a template, for example jsonpath='{.metadata.name}'"),
        ("{.a", "jsonpath: braces do not match: {.a"),
        ("{.a[}", "jsonpath: not a JSONPath: .a["),
        ("{range .a}", "jsonpath: {range …} without {end}"),
        ("{end}", "jsonpath: {end} without {range …} before it"),
    ],
)
def test_a_wrong_template_is_refused_before_anything_is_done(run: Dray, template: str, problem: str) -> None:
    result = run("lint", "/nonexistent/dray", "-o", f"jsonpath={template}")
    assert result.exit_code == 2
    assert problem in result.stderr


def test_json_and_yaml_hold_the_same_document() -> None:
    for document in ({"a": [1, "ü"], "b": None}, [{"a": True}, {"b": "yes"}], []):
        assert json.loads(structured(document, "json")) == document
        assert yaml.safe_load(structured(document, "yaml")) == document


@pytest.mark.parametrize(
    "arguments",
    [
        ("cel", "device.driver == 'a'"),
        ("cel", "device.drive"),
        ("lint", "examples/mistakes"),
        ("topology", "-f", "examples/lab"),
        ("status", "--data", "/nonexistent/dray"),
        ("fleet", "show", "cpu-64"),
    ],
)
def test_commands_print_the_same_in_both(
    run: Dray, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_json, as_yaml = run(*arguments, "-o", "json"), run(*arguments, "-o", "yaml")
    assert as_json.exit_code == as_yaml.exit_code
    assert yaml.safe_load(as_yaml.stdout) == json.loads(as_json.stdout)
    assert json.loads(run(*arguments, "-o", "jsonpath={$}").stdout) == json.loads(as_json.stdout)


def test_lists_of_a_cluster_are_printed_as_json_and_yaml(dray: Dray) -> None:
    assert yaml.safe_load(dray("devices", "-o", "yaml").stdout) == []
    assert dray("devices", "-o", "text").stdout == dray("devices").stdout
    assert json.loads(dray("top", "-o", "json").stdout) == {"devices": [], "pending": []}
    assert yaml.safe_load(dray("top", "-o", "yaml").stdout) == {"devices": [], "pending": []}
    assert json.loads(dray("user", "list", "-o", "json").stdout) == []
