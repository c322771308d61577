"""The address of `dray up` is that of the last start with the same directory, unless it is told otherwise."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dray.cli.serving import serving
from dray.cli.up_address import Address, remember, remembered, resolved
from dray.server.running import Options


def asked(data: Path, *arguments: str, join_token: bool = False) -> tuple[str, int, tuple[str, ...]]:
    """Where `dray up` with these arguments would listen."""
    found = []

    @click.command()
    @serving
    def command(**given):
        given = resolved(data, given, join_token=join_token)
        found.append((given["bind"], given["port"], given["names"]))

    result = CliRunner().invoke(command, arguments)
    assert found, result.output
    return found[0]


@pytest.mark.parametrize(
    ("arguments", "join_token", "expected"),
    [
        ((), False, ("192.0.2.1", 7443, ("lab",))),
        ((), True, ("192.0.2.1", 7443, ("lab",))),
        (("--bind", "127.0.0.1"), False, ("127.0.0.1", 7443, ("lab",))),
        (("--bind", "127.0.0.1"), True, ("127.0.0.1", 7443, ("lab",))),
        (("--port", "0", "--name", "other"), False, ("192.0.2.1", 0, ("other",))),
        (("--plain",), False, ("127.0.0.1", 6443, ())),
    ],
)
def test_what_is_not_given_is_as_it_was(tmp_path, arguments, join_token, expected):
    remember(Options(data=tmp_path, bind="192.0.2.1", port=7443, names=("lab",)))
    assert asked(tmp_path, *arguments, join_token=join_token) == expected


def test_machines_that_join_reach_all_addresses_unless_one_was_chosen(tmp_path):
    assert asked(tmp_path) == ("127.0.0.1", 6443, ())
    assert asked(tmp_path, join_token=True) == ("0.0.0.0", 6443, ())
    remember(Options(data=tmp_path))
    assert asked(tmp_path, join_token=True) == ("0.0.0.0", 6443, ())
    remember(Options(data=tmp_path, bind="0.0.0.0"))
    assert asked(tmp_path) == ("0.0.0.0", 6443, ())


def test_plain_http_and_a_broken_file_are_not_remembered(tmp_path):
    remember(Options(data=tmp_path, bind="192.0.2.1"))
    remember(Options(data=tmp_path, plain=True))
    assert remembered(tmp_path).bind == "192.0.2.1"
    (tmp_path / "address.json").write_text("{")
    assert remembered(tmp_path) == Address()
