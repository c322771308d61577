"""Warnings of answers on standard error."""

from __future__ import annotations

import click


def warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)
