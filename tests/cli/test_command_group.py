"""The list of commands, misspelt commands, and the one form of all errors."""

from __future__ import annotations

from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner, Result

from dray.cli import COMMANDS, TOPICS
from dray.cli.cluster import _reason
from dray.cli.command_group import CommandGroup
from dray.client.errors import ApiError

Dray = Callable[..., Result]


def test_every_command_is_listed_under_one_topic() -> None:
    assert sorted(name for names in TOPICS.values() for name in names) == sorted(COMMANDS)


def test_the_help_lists_topics_in_order(run: Dray) -> None:
    lines = run("--help").output.splitlines()
    assert [line.removesuffix(":") for line in lines if line.removesuffix(":") in TOPICS] == list(TOPICS)


def test_a_command_without_a_topic_is_listed_too() -> None:
    group = CommandGroup(
        "tool", loaded_from={"get": ("a:get", "Get it."), "put": ("a:put", "Put it.")}, topics={"Read": ("get",)}
    )
    said = CliRunner().invoke(group, ["--help"]).output
    assert "Read:\n  get  Get it.\n\nOther:\n  put  Put it.\n" in said


@pytest.mark.parametrize(
    ("typed", "meant"), [("lnit", "lint"), ("device", "devices"), ("stat", "status"), ("topolgy", "topology")]
)
def test_a_misspelt_command_gets_a_suggestion(run: Dray, typed: str, meant: str) -> None:
    result = run(typed)
    assert result.exit_code == 2
    assert meant in result.stderr.partition("did you mean ")[2].partition("?")[0].split(" or ")


def test_a_command_like_no_other_gets_no_suggestion(run: Dray) -> None:
    assert run("xyzzy").stderr == "error: no such command 'xyzzy'\nSee 'dray --help'.\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("logs",), "error: missing argument 'POD'\nSee 'dray logs --help'.\n"),
        (("run", "--gpu", "many"), "error: invalid value for '--gpu': 'many' is not a valid integer range\n"),
        (("fleet", "lst"), "error: no such command 'lst'"),
        (("--colour",), "error: no such option"),
        (("completion", "tcsh"), "error: invalid value for "),
        (("completion",), "error: missing argument "),
    ],
)
def test_a_wrong_command_line_is_an_error_in_the_one_form(run: Dray, arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(said)
    assert len(result.stderr.splitlines()) == 2
    assert result.stderr.splitlines()[1].startswith("See 'dray ")


def test_an_error_of_a_command_keeps_its_status_and_its_words() -> None:
    class Refused(click.ClickException):
        exit_code = 7

    group = CommandGroup("tool", loaded_from={"fail": ("x:y", "")}, topics={})

    def fail() -> None:
        raise Refused("Node a is gone.")

    group.get_command = lambda ctx, name: click.Command("fail", callback=fail)  # type: ignore[method-assign]
    result = CliRunner().invoke(group, ["fail"])
    assert (result.exit_code, result.stderr) == (7, "error: Node a is gone.\n")


@pytest.mark.parametrize(
    ("message", "reason", "shown"),
    [
        ('pods "a" not found', "NotFound", ""),
        ('pods "a" already exists', "AlreadyExists", ""),
        ("the object has been modified", "Conflict", " (Conflict)"),
        ("no", "", ""),
    ],
)
def test_the_reason_of_a_refusal_is_shown_if_the_message_does_not_say_it(message: str, reason: str, shown: str) -> None:
    assert _reason(ApiError(400, reason, message)) == shown
