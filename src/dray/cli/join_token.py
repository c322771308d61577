"""`dray join-token`: lets other machines into a cluster, and prints the line that brings one in."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click

from dray.cli import durations
from dray.cli.cluster import Cluster, Where, ask, reaching

if TYPE_CHECKING:
    from dray.client.api import ApiClient

DEFAULT_TTL: Final = timedelta(hours=24)
# Drivers that a machine that joins runs by itself; it has no right to make their classes.
_DRIVERS: Final = ("dra.cpu",)


class Unreachable(click.ClickException):
    """Other machines could do nothing with the line."""

    exit_code = 2


@click.command("join-token")
@reaching
@click.option("--ttl", default="24h", show_default=True, callback=durations.seconds, help="How long the token is good.")
def join_token(kubeconfig: Path | None, context: str, ttl: float) -> None:
    """Print the line that brings another machine into the cluster.

    Whoever has the line can make a machine a node, until the token expires. `kubectl delete secret -n kube-system
    bootstrap-token-ID`, with the token's first six characters as ID, ends it at once; machines that have joined stay.

    Exit status: 0 printed, 1 the server refused, 2 it cannot be asked, or not by other machines.
    """

    async def work(cluster: Cluster) -> int:
        click.echo(await invitation(cluster.client, timedelta(seconds=ttl)))
        return 0

    ask(Where(kubeconfig, context, ""), work)


async def invitation(client: ApiClient, ttl: timedelta = DEFAULT_TTL) -> str:
    """Makes a token; the line of shell that uses it. Raises Unreachable or ClientError."""
    from dray.api import bootstrap_tokens
    from dray.api.catalogue import built_in
    from dray.client import cluster_info
    from dray.client.clock import timestamp
    from dray.client.errors import NotFound
    from dray.drivers.class_creation import make_classes

    try:
        info = cluster_info.read(await client.request("GET", cluster_info.PATH))
    except NotFound:
        raise Unreachable("the server speaks plain HTTP, on this machine alone: start it without --plain") from None
    check_reachable(info.server)
    token_id, secret = _text(bootstrap_tokens.ID_LENGTH), _text(bootstrap_tokens.SECRET_LENGTH)
    made = bootstrap_tokens.secret(
        token_id,
        secret,
        expiration=timestamp(datetime.now(UTC) + ttl),
        description="made by dray join-token",
    )
    await client.create(built_in("v1", "Secret"), made)
    await make_classes(client, _DRIVERS)
    authority = cluster_info.key_hash(info.authority)
    return f"dray node --join {info.server} --token {token_id}.{secret} --ca-hash {authority}"


def check_reachable(server: str) -> None:
    host = urlsplit(server).hostname or ""
    try:
        alone = ip_address(host).is_loopback
    except ValueError:
        alone = host == "localhost"
    if alone:
        raise Unreachable(
            f"the server listens at {server}, which other machines do not reach: "
            "start it with --bind 0.0.0.0, or with --bind and an address of this machine"
        )


def _text(length: int) -> str:
    from dray.api.bootstrap_tokens import ALPHABET

    return "".join(secrets.choice(ALPHABET) for _ in range(length))
