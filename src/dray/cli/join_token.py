"""`dray join-token`: lets other machines into a cluster, and prints the line that brings one in."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click

from dray.api.objects import Object
from dray.cli import durations
from dray.cli.cluster import Cluster, Where, ask, reaching
from dray.cli.output_formats import output_option, structured

if TYPE_CHECKING:
    from dray.client.api import ApiClient

DEFAULT_TTL: Final = timedelta(hours=24)
# Drivers that a machine that joins runs by itself; it has no right to make their classes.
_DRIVERS: Final = ("dra.cpu",)


class PlainServer(click.ClickException):
    """The server speaks plain HTTP, so nodes cannot join it with a token."""

    exit_code = 2


@click.command("join-token")
@reaching
@click.option("--ttl", default="24h", show_default=True, callback=durations.seconds, help="Lifetime of the token.")
@click.option(
    "--this-machine",
    is_flag=True,
    help="Allow a node with the host name of the API server's machine.",
)
@output_option(
    "text",
    "json",
    "yaml",
    "command",
    "kubeconfig",
    description="Output format: a dray node command as text or command, or a file for kubelet --bootstrap-kubeconfig.",
)
def join_token(kubeconfig: Path | None, context: str, ttl: float, this_machine: bool, output: str) -> None:
    """Print the command that adds another machine to the cluster.

    Keep the command secret: it can add nodes until the token expires. To revoke the token, run `dray delete secret -n
    kube-system bootstrap-token-ID`; ID is the first six characters of the token. Machines that have joined stay.

    \b
    Examples:
      dray join-token
      dray join-token --ttl 1h
      dray join-token -o kubeconfig > bootstrap.kubeconfig
      dray join-token -o jsonpath='{.token}'

    Exit status: 0 printed, 1 the server refused, 2 the server cannot be reached or serves plain HTTP.
    """

    async def work(cluster: Cluster) -> int:
        made = await make_token(cluster.client, timedelta(seconds=ttl), this_machine=this_machine)
        if made.is_local:
            click.echo(f"note: {made.only_here}", err=True)
        click.echo(_written(made, output), nl=False)
        return 0

    ask(Where(kubeconfig, context, ""), work)


def _written(made: JoinToken, output: str) -> str:
    if output == "kubeconfig":
        return made.kubeconfig
    return f"{made.command}\n" if output in ("text", "command") else structured(made.document, output)


@dataclass(frozen=True, slots=True)
class JoinToken:
    """A token and its server; `authority` is the server's certificate authority, as PEM."""

    server: str
    token: str
    authority: bytes

    @property
    def command(self) -> str:
        """Returns the shell command that joins a node with the token."""
        return f"dray node --join {self.server} --token {self.token} --ca-hash {self.ca_hash}"

    @property
    def ca_hash(self) -> str:
        from dray.client import cluster_info

        return cluster_info.key_hash(self.authority)

    @property
    def document(self) -> Object:
        """Returns the parts of the command, for programs."""
        return {"server": self.server, "token": self.token, "caHash": self.ca_hash, "command": self.command}

    @property
    def kubeconfig(self) -> str:
        """Returns the kubeconfig with which a kubelet requests its first certificate."""
        from dray.server.security import kubeconfig
        from dray.yaml.writing import as_yaml

        return as_yaml([kubeconfig.bootstrap(self.server, self.authority, self.token)])

    @property
    def is_local(self) -> bool:
        """Whether only the machine of the server reaches the server."""
        host = urlsplit(self.server).hostname or ""
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    @property
    def only_here(self) -> str:
        return (
            f"only this machine reaches {self.server}; for others, start the server with --bind 0.0.0.0, "
            "or with --bind and an address of this machine"
        )


async def make_token(client: ApiClient, ttl: timedelta = DEFAULT_TTL, *, this_machine: bool = False) -> JoinToken:
    """Raises PlainServer or ClientError."""
    from dray.api import bootstrap_tokens
    from dray.api.catalogue import built_in
    from dray.client import cluster_info
    from dray.client.clock import timestamp
    from dray.client.errors import NotFound
    from dray.drivers.class_creation import make_classes

    try:
        info = cluster_info.read(await client.request("GET", cluster_info.PATH))
    except NotFound:
        raise PlainServer("the server speaks plain HTTP, and nodes join over TLS: start it without --plain") from None
    token_id, secret = _text(bootstrap_tokens.ID_LENGTH), _text(bootstrap_tokens.SECRET_LENGTH)
    made = JoinToken(info.server, f"{token_id}.{secret}", info.authority)
    stored = bootstrap_tokens.secret(
        token_id,
        secret,
        expiration=timestamp(datetime.now(UTC) + ttl),
        description="made by dray join-token",
        groups=[bootstrap_tokens.SERVER_MACHINE] if this_machine or made.is_local else [],
    )
    await client.create(built_in("v1", "Secret"), stored)
    await make_classes(client, _DRIVERS)
    return made


def _text(length: int) -> str:
    from dray.api.bootstrap_tokens import ALPHABET

    return "".join(secrets.choice(ALPHABET) for _ in range(length))
