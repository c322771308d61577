"""`dray join-token`, and what keeps machines from joining."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from dray.cli.join_token import Unreachable, invitation
from dray.client.api import ApiClient
from dray.server.inprocess import InProcessTransport
from dray.server.running import Options, RunningServer

Dray = Callable[..., Result]


@pytest.mark.parametrize(
    ("options", "why"),
    [(Options(port=0), "start it with --bind 0.0.0.0"), (Options(port=0, plain=True), "start it without --plain")],
)
async def test_a_server_that_other_machines_do_not_reach_lets_none_in(options: Options, why: str) -> None:
    async with RunningServer(options).running() as server:
        with pytest.raises(Unreachable, match=why):
            await invitation(ApiClient(InProcessTransport(server.application)))


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
