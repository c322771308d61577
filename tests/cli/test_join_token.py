"""`dray join-token`, and what keeps machines from joining."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.running import running

Dray = Callable[..., Result]


def test_a_server_that_other_machines_do_not_reach_lets_none_in(run: Dray, tmp_path: Path) -> None:
    with running("apiserver", "--port", "0", "--kubeconfig", "config", cwd=tmp_path) as process:
        while not process.line().startswith("export "):
            pass
        result = run("join-token", "--kubeconfig", str(tmp_path / "config"))
    assert result.exit_code == 2
    assert "start it with --bind 0.0.0.0" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("up", "--join-token", "--plain"), "--join-token needs TLS"),
        (("join-token", "--ttl", "soon"), "is not a duration like 30s"),
        (("node", "--join", "https://192.0.2.9:6443"), "--join needs --token and --ca-hash"),
        (("node", "--token", "a.b"), "--token and --ca-hash go with --join"),
        (
            ("node", "--join", "http://192.0.2.9:6443", "--token", "a.b", "--ca-hash", "sha256:0"),
            "joins over https",
        ),
    ],
)
def test_what_does_not_go_together(run: Dray, tmp_path: Path, arguments: tuple[str, ...], why: str) -> None:
    root = ("--root", str(tmp_path / "root")) if arguments[0] == "node" else ()
    result = run(*arguments, *root)
    assert result.exit_code == 2
    assert why in result.stderr
