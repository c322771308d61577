"""`dray join-token`, and what keeps machines from joining."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from dray.api.catalogue import built_in
from dray.cli.join_token import JoinToken, PlainServer, make_token
from dray.client.api import ApiClient
from dray.node.joining.joining import Invitation, join
from dray.node.joining.membership import CLIENT, Membership, common_name
from dray.server.inprocess import InProcessTransport
from dray.server.running import Options, RunningServer
from tests.cli.running import running
from tests.cli.test_up import wait

Dray = Callable[..., Result]


async def test_a_server_that_speaks_plain_http_lets_nobody_join() -> None:
    async with RunningServer(Options(port=0, plain=True)).running() as server:
        with pytest.raises(PlainServer, match="start it without --plain"):
            await make_token(ApiClient(InProcessTransport(server.application)))


async def test_a_token_of_a_server_on_loopback_is_for_its_own_machine() -> None:
    async with RunningServer(Options(port=0)).running() as server:
        client = ApiClient(InProcessTransport(server.application))
        made = await make_token(client)
        assert made.is_local
        assert "start the server with --bind 0.0.0.0" in made.only_here
        assert made.command.startswith(f"dray node --join {server.url} --token ")
        assert await groups_of(client, made) == "system:bootstrappers:dray:server-machine"


async def test_a_token_for_a_kubelet_is_a_kubeconfig() -> None:
    async with RunningServer(Options(port=0, names=("192.0.2.9",))).running() as server:
        client = ApiClient(InProcessTransport(server.application))
        made = await make_token(client)
        assert not made.is_local
        assert await groups_of(client, made) == ""
        config = yaml.safe_load(made.kubeconfig)
        assert config["clusters"][0]["cluster"]["server"] == server.public_url
        assert config["users"][0]["user"] == {"token": made.token}
        assert await groups_of(client, await make_token(client, this_machine=True)) != ""


async def groups_of(client: ApiClient, made: JoinToken) -> str:
    found = await client.get(built_in("v1", "Secret"), f"bootstrap-token-{made.token[:6]}", namespace="kube-system")
    return base64.b64decode(found["data"].get("auth-extra-groups", "")).decode()


def test_programs_get_the_parts_of_the_command(run: Dray, tmp_path: Path) -> None:
    config = ("--kubeconfig", str(tmp_path / "data/kubeconfig"))
    with running("up", "--port", "0", "--data", "data", cwd=tmp_path) as up:
        wait(up)
        made = json.loads(run("join-token", "-o", "json", *config).stdout)
        assert made["command"] == (
            f"dray node --join {made['server']} --token {made['token']} --ca-hash {made['caHash']}"
        )
        assert re.fullmatch(r"[a-z0-9]{6}\.[a-z0-9]{16}", run("join-token", "-o", "jsonpath={.token}", *config).stdout)
        for output in ("text", "command"):
            assert run("join-token", "-o", output, *config).stdout.startswith("dray node --join https://127.0.0.1:")


def test_a_machine_joins_its_own_server_on_loopback_under_its_own_name(tmp_path: Path) -> None:
    with running("up", "--bind", "127.0.0.1", "--port", "0", "--join-token", cwd=tmp_path) as process:
        lines = wait(process)
        (line,) = [each for each in lines if each.startswith("this machine joins with: dray node ")]
        assert [each for each in lines if each.startswith("note: only this machine reaches https://127.0.0.1:")]
        _, _, _, server, _, token, _, authority = line.partition(": ")[2].split()
        name = socket.gethostname().lower()
        membership = Membership(tmp_path / "pki", name)
        asyncio.run(join(Invitation(server, token, authority), membership))
        credential = membership.credential(CLIENT)
        assert credential is not None
        assert common_name(credential) == f"system:node:{name}"


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
