"""Running of `dray node`: with a kubeconfig, or as a machine that has joined a cluster and renews its certificates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NoReturn
from urllib.parse import urlsplit

import click

from dray.cli.cluster import ending_at
from dray.cli.machine import Machine, MachineOptions
from dray.cli.serving import run, stopping, until
from dray.client.api import ApiClient
from dray.client.endpoint import Endpoint
from dray.client.errors import ConfigError
from dray.client.first_contact import FirstContact
from dray.client.http import HttpTransport
from dray.client.server_health import ServerHealth
from dray.node.errors import NodeError
from dray.node.joining import requests
from dray.node.joining.driver_rights import DriverRights
from dray.node.joining.joining import Invitation, join
from dray.node.joining.membership import CLIENT, SERVING, Membership
from dray.node.joining.renewal import Renewal
from dray.node.server.trust import NodeTrust
from dray.server.listening import own_address

if TYPE_CHECKING:
    from dray.server.security.certificates import Credential

_PKI: Final = "pki"


def membership_of(options: MachineOptions) -> Membership:
    return Membership(options.root / _PKI, options.node)


def has_joined(options: MachineOptions) -> bool:
    return membership_of(options).exists()


def at_address(options: MachineOptions, address: str) -> MachineOptions:
    """Sets the node's address, unless the options have one."""
    return options if options.address else replace(options, address=address)


def run_joined(options: MachineOptions, server: str, token: str, authority_hash: str) -> NoReturn:
    membership = membership_of(options)

    def find() -> Endpoint:
        if membership.exists():
            _check(membership, server, authority_hash)
        elif not (token and authority_hash):
            raise ConfigError("--join needs --token and --ca-hash; dray join-token prints the whole line")
        else:
            run(_join(Invitation(server, token, authority_hash), membership))
        return membership.endpoint()

    ending_at(find, lambda endpoint: run(_serve_joined(endpoint, membership, options)), server)


async def _join(invitation: Invitation, membership: Membership) -> int:
    await join(invitation, membership)
    return 0


def _check(membership: Membership, server: str, authority_hash: str) -> None:
    """A machine that has joined needs no token; the server may have moved, but not be another."""
    from dray.client.cluster_info import ClusterInfo, check

    if authority_hash:
        try:
            check(ClusterInfo(membership.server(), membership.authority()), authority_hash)
        except ConfigError:
            raise NodeError(
                f"this machine belongs to another cluster, at {membership.server()}: "
                f"delete {membership.directory} to leave it, or use another --root"
            ) from None
    if server and server != membership.server():
        membership.move(server)


async def _serve_joined(endpoint: Endpoint, membership: Membership, options: MachineOptions) -> int:
    options = at_address(options, own_address(urlsplit(endpoint.server).hostname or ""))
    stop = stopping()
    transport = HttpTransport(endpoint, health=ServerHealth(endpoint.server))
    without = HttpTransport(Endpoint(endpoint.server, ca=endpoint.ca))
    async with ApiClient(DriverRights(transport, without, options.node)) as client:
        serving = membership.credential(SERVING)
        if serving is None:
            if not await _answered(endpoint.server, client, stop):
                return 0
            serving = await requests.serving_certificate(client, options.node)
            membership.keep(SERVING, serving)
        trust = NodeTrust(membership.authority(), serving)
        machine = Machine(client, replace(options, trust=trust, api_server=endpoint.server))

        async def show(credential: Credential) -> None:
            await transport.show(credential.certificate, credential.key)

        renewals = (
            Renewal(membership, CLIENT, lambda: requests.client_certificate(client, options.node), show),
            Renewal(membership, SERVING, lambda: requests.serving_certificate(client, options.node), machine.show),
        )
        return await _until_stopped(machine, endpoint.server, stop, *(renewal.run for renewal in renewals))


async def serve(endpoint: Endpoint, options: MachineOptions) -> int:
    """Runs the node with the rights of the endpoint's user. Returns the exit status."""
    stop = stopping()
    async with ApiClient(HttpTransport(endpoint, health=ServerHealth(endpoint.server))) as client:
        machine = Machine(client, replace(options, api_server=endpoint.server))
        # Static pods run without a server; without them there is nothing to do before it answers.
        if options.manifests is None and not await _answered(endpoint.server, client, stop):
            return 0
        return await _until_stopped(machine, endpoint.server, stop)


async def _answered(server: str, client: ApiClient, stop: asyncio.Event) -> bool:
    """Waits for the server; returns False if the stop comes first."""
    return await until(stop, FirstContact(server).reach(lambda: client.request("GET", "/version")))


async def _until_stopped(
    machine: Machine, server: str, stop: asyncio.Event, *beside: Callable[[], Awaitable[None]]
) -> int:
    running = asyncio.create_task(machine.run())
    stopped = asyncio.create_task(stop.wait())
    others = [asyncio.ensure_future(coroutine()) for coroutine in beside] + [
        asyncio.create_task(_greet(machine, server))
    ]
    await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
    for task in (running, stopped, *others):
        task.cancel()
    (ended, *_) = await asyncio.gather(running, stopped, *others, return_exceptions=True)
    if not stop.is_set() and isinstance(ended, BaseException):
        click.echo(f"error: node {machine.options.node}: {ended}", err=True)
        return 1
    return 0


async def _greet(machine: Machine, server: str) -> None:
    await machine.ready.wait()
    click.echo(f"Node {machine.options.node} at {server}")
