"""Paths of options, made absolute: what is printed about them can be pasted into a shell in any directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


class AbsolutePath(click.Path):
    """A directory or file by its absolute path; symbolic links are kept."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, file_okay=file_okay, dir_okay=dir_okay)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        return Path(str(super().convert(value, param, ctx))).absolute()
