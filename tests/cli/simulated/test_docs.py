"""What README and docs show of `dray run` is what it prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.simulated.conftest import Up

ROOT = Path(__file__).parents[3]


def steady(text: str) -> str:
    """Without generated names, and without how many nodes there are."""
    text = re.sub(r"\brun-[a-z0-9]{5}\b", "run-*****", text)
    return re.sub(r"\d+/\d+ nodes are available: .*?cannot allocate", "nodes", text)


def shown(page: str) -> list[tuple[str, str]]:
    """Commands of `dray run` and what follows each."""
    blocks = re.findall(r"```\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [
        (command, output) for command, _, output in (part.partition("\n") for part in parts) if "dray run" in command
    ]


@pytest.mark.parametrize("page", ["README.md", "docs/run.md", "docs/fleet.md"])
def test_it_prints_what_is_shown(up: Up, page: str) -> None:
    found = shown(page)
    assert found
    for command, output in found:
        done = up.dray(*shlex.split(command)[1:])
        said = [*done.stderr.splitlines(), *done.stdout.splitlines()]
        assert [steady(line) for line in said] == [steady(line) for line in output.splitlines()]
