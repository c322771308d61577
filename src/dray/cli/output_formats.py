"""The option `-o`: the same formats under the same names in every command.

A command prints for people as `table` or `text`, whichever it names, and understands the other word too. Programs read
`json` or `yaml`, which hold the same document.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_SAME: Final = {"text": "table", "table": "text"}


class OutputFormat(click.Choice[str]):
    """One of the formats of a command; `text` and `table` mean the same."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        other = _SAME.get(value, value)
        return super().convert(other if value not in self.choices else value, param, ctx)


def output_option(*formats: str, description: str = "Output format.") -> Callable[[Command], Command]:
    """Gives a command the option `-o` with these formats; the first is the default."""
    return click.option(
        "--output", "-o", type=OutputFormat(formats), default=formats[0], show_default=True, help=description
    )


def structured(document: dict[str, Any] | Sequence[Any], output: str) -> str:
    """Returns the document as JSON or YAML, as `output` says, with a line end."""
    if output == "yaml":
        from dray.yaml.writing import as_yaml

        return as_yaml([document if isinstance(document, dict) else list(document)])
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
