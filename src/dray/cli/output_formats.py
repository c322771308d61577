"""The option `-o`: the same formats under the same names in every command.

A command prints for people as `table` or `text`, whichever it names, and understands the other word too. `wide` is a
table with more columns; a command that has no more prints its table. Programs read `json` or `yaml`, which hold the
same document, take parts of it with `jsonpath=TEMPLATE`, or, from lists, the `name` of each item.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_SAME: Final = {"text": "table", "table": "text", "wide": "table"}
_JSONPATH: Final = "jsonpath="


class OutputFormat(click.Choice[str]):
    """One of the formats of a command, or a JSONPath template; `text` and `table` mean the same."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if is_template(value) and any(map(is_template, self.choices)):
            return self._template(value, param, ctx)
        other = _SAME.get(value, value)
        return super().convert(other if value not in self.choices else value, param, ctx)

    def _template(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from dray.cli.json_path_template import TemplateError, parse

        if not value.removeprefix(_JSONPATH):
            self.fail("jsonpath needs a template, for example jsonpath='{.metadata.name}'", param, ctx)
        try:
            parse(value.removeprefix(_JSONPATH))
        except TemplateError as error:
            self.fail(f"jsonpath: {error}", param, ctx)
        return value


def is_template(output: Any) -> bool:
    return isinstance(output, str) and output.startswith(_JSONPATH)


def output_option(*formats: str, description: str = "Output format.") -> Callable[[Command], Command]:
    """Gives a command the option `-o` with these formats; the first is the default."""
    offered = (*formats, f"{_JSONPATH}TEMPLATE") if "json" in formats else formats
    return click.option(
        "--output", "-o", type=OutputFormat(offered), default=formats[0], show_default=True, help=description
    )


def structured(document: dict[str, Any] | Sequence[Any], output: str) -> str:
    """Returns the document as JSON or YAML with a line end, or what a JSONPath template makes of it."""
    if is_template(output):
        from dray.cli.json_path_template import parse, render

        return render(parse(output.removeprefix(_JSONPATH)), document)
    if output == "yaml":
        from dray.yaml.writing import as_yaml

        return as_yaml([document if isinstance(document, dict) else list(document)])
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def manifests(objects: Sequence[dict[str, Any]], output: str) -> str:
    """Returns objects as kubectl takes them: YAML documents one after the other; otherwise several are one List."""
    from dray.yaml.writing import as_document, as_yaml

    return as_yaml(objects) if output == "yaml" else structured(as_document(objects), output)
