"""Every help text has an example that works, names its exit statuses, and describes its options in plain words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dray.cli import main

ROOT = Path(__file__).parents[2]
# A description that starts with one of these cannot be read alone.
CONTINUES = frozenset(
    "also and as at but by for from if in instead it its neither of on only or so such than that the these they those "
    "to until what when where which who whoever whom whose with without".split()
)
UNUSUAL = re.compile(r"\b(somebody|nobody|whoever|one who|that one|the one that|such as a|is at work|of one's own)\b")


def walk(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    yield context.command_path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from walk(child, click.Context(child, info_name=name, parent=context))


HELPS = {path: (command, context) for path, command, context in walk(main, click.Context(main, info_name="dray"))}
COMMANDS = [path for path, (command, _) in HELPS.items() if not isinstance(command, click.Group)]
OPTIONS = [
    (path, parameter)
    for path, (command, _) in HELPS.items()
    for parameter in command.params
    if isinstance(parameter, click.Option) and not parameter.hidden
]


def examples(path: str) -> list[str]:
    text = HELPS[path][0].help or ""
    block = text.partition("Examples:\n")[2].partition("\n\n")[0]
    return [line.strip() for line in block.splitlines() if line.strip()]


@pytest.mark.parametrize("path", HELPS)
def test_every_help_has_an_example(path: str) -> None:
    shown = examples(path)
    assert any(line.startswith(path) or f"<({path}" in line for line in shown), shown
    command, context = HELPS[path]
    # The lines are printed one by one and not filled into a paragraph.
    for line in shown:
        assert f"    {line}\n" in command.get_help(context)


@pytest.mark.parametrize("path", HELPS)
def test_examples_parse(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for line in examples(path):
        for words in commands_of(line):
            if words[0] == "dray":
                parse(main, words[1:], click.Context(main, info_name="dray"))


def commands_of(line: str) -> Iterator[list[str]]:
    """Splits a shell line at pipes, redirections and parentheses into the commands it consists of."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    words: list[str] = []
    for token in [*reader, "|"]:
        if not set(token) <= set("();<>|&"):
            words.append(token)
        elif words:
            yield words
            words = []


def parse(command: click.Command, words: list[str], parent: click.Context) -> None:
    """Reads a command line as the command would, and does not run it; raises UsageError if it is wrong."""
    if isinstance(command, click.Group):
        _, child, rest = command.resolve_command(parent, list(words))
        assert child is not None
        context = click.Context(child, info_name=words[0], parent=parent)
        if isinstance(child, click.Group):
            parse(child, rest, context)
            return
        try:
            child.make_context(words[0], rest, parent=parent)
        except click.BadParameter as error:
            # Examples may name files that users have and this machine has not.
            if "does not exist" not in error.message:
                raise


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_names_its_exit_statuses(path: str) -> None:
    assert "Exit status: " in (HELPS[path][0].help or "")


@pytest.mark.parametrize("path", HELPS)
def test_every_command_says_in_its_first_line_what_it_does(path: str) -> None:
    first = (HELPS[path][0].help or "").split("\n\n")[0]
    assert first[0].isupper()
    assert first.endswith(".")
    assert first.split()[0].lower() not in CONTINUES


@pytest.mark.parametrize("path", [path for path, (command, _) in HELPS.items() if isinstance(command, click.Group)])
def test_no_description_of_a_command_is_cut(path: str) -> None:
    command, context = HELPS[path]
    listed = command.get_help(context).partition("\nOptions:")[2]
    assert [line for line in listed.splitlines() if line.endswith("...")] == []


@pytest.mark.parametrize(("path", "option"), OPTIONS, ids=[f"{path} {option.opts[0]}" for path, option in OPTIONS])
def test_an_option_is_described_in_a_sentence_of_its_own(path: str, option: click.Option) -> None:
    text = option.help or ""
    assert text, "no description"
    assert re.match(r"[A-Z/*]|[a-z]+:", text), text
    assert text.endswith("."), text
    assert text.split()[0].lower().rstrip(".,:;") not in CONTINUES, text
    assert not UNUSUAL.search(text), text
