"""README and docs: links lead to files, the commands they show parse, and the recorded session is made of such."""

from __future__ import annotations

import html
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest

from dray.cli import COMMANDS, main
from tests.cli.test_help import commands_of, parse

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\(([\w./:-]+)(?:#[^)]*)?\)", page.read_text())
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def anchors(page: Path) -> set[str]:
    """Returns the anchors of the headings: lower case, spaces as dashes, other marks left out."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_to_headings(page: Path) -> None:
    links = re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", page.read_text())
    targets = [((page.parent / path) if path else page, anchor) for path, anchor in links]
    assert [anchor for target, anchor in targets if target.suffix == ".md" and anchor not in anchors(target)] == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_shown_commands_parse(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```\n(.*?)```", page.read_text(), re.DOTALL)
    for line in re.findall(r"^\$ (dray .*)$", "".join(blocks), re.MULTILINE):
        if "<<" in line or line.endswith("\\"):
            continue
        for words in commands_of(line):
            if words[0] == "dray":
                check(words[1:])


def check(words: list[str]) -> None:
    """Fails for a command or option that does not exist."""
    try:
        parse(main, words, click.Context(main, info_name="dray"))
    except click.exceptions.Exit:
        assert {"--help", "--version"} & set(words)


def test_every_command_is_in_the_table_of_the_readme() -> None:
    table = README.read_text().partition("## Commands")[2]
    named = set(re.findall(r"`(?:dray )?([a-z-]+)[ `]", table))
    assert set(COMMANDS) - named == set()


def test_the_readme_starts_without_acronyms() -> None:
    first = README.read_text().split("\n\n")[1]
    assert re.findall(r"\b[A-Z]{2,}s?\b", first) == []


def recorder() -> Any:
    path = ROOT / "tools/record_terminal.py"
    spec = importlib.util.spec_from_file_location("record_terminal", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_recorded_session_shows_commands_that_parse() -> None:
    text = (ROOT / "docs/session.svg").read_text()
    ElementTree.fromstring(text)
    shown = [html.unescape(line) for line in re.findall(r'class="c"[^>]*>\$ ([^<]*)<', text)]
    assert tuple(shown) == recorder().COMMANDS
    for line in shown:
        for words in commands_of(line):
            check(words[1:])


def test_the_recorder_writes_each_line_at_its_time() -> None:
    module = recorder()
    lines = [module.Line("$ dray get a<b", 0.0, is_command=True), module.Line("x  y", 1.25)]
    svg = module.as_svg(lines)
    texts = [element for element in ElementTree.fromstring(svg) if element.tag.endswith("text")]
    assert [element.text for element in texts] == ["$ dray get a<b", "x  y"]
    assert texts[1].attrib["style"] == "animation-delay:1.2s"


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_says_that_it_installs_before_it_does() -> None:
    command = ["make", "--dry-run", "--always-make", "demo"]
    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    said, installs = planned.index("installing dray"), planned.index("pip install")
    assert said < installs < planned.index("examples/demo.py")
