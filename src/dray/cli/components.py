"""Options of the commands that run components (scheduler, controllers), and their run against an API server."""

from __future__ import annotations

import asyncio
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from dray.answers.schedulers import with_plugins
from dray.cli.cluster import Where, ending
from dray.cli.guard import AtWork, Guard
from dray.cli.metrics import MetricsAddress, MetricsError, serving_metrics
from dray.cli.plugins import plugin_option
from dray.cli.policies import policy_option
from dray.cli.queue_usage import option as queue_usage_option
from dray.cli.serving import log_to_stderr, run, stopping, until

if TYPE_CHECKING:
    from dray.api.gates import FeatureGates
    from dray.client.api import ApiClient
    from dray.client.endpoint import Endpoint
    from dray.client.first_contact import FirstContact
    from dray.client.server_health import ServerHealth
    from dray.control_plane.control_plane import ControlPlane, PlaneOptions
    from dray.scheduling.quota.usage_decay import UsageOptions
    from dray.scheduling.scheduler import Options

Command = TypeVar("Command", bound=Callable[..., Any])

SCHEDULER_OPTIONS: Final = (
    "scheduler_name",
    "policy",
    "devices",
    "node_devices",
    "device_preemption",
    "reserve_minutes",
    "queue_usage",
    "queues",
    "plugins",
)
"""Names of the options that `scheduling` adds to a command."""
# Of the ten in which a lease must be renewed: after that there is time for another connection.
_LEASE_SECONDS: Final = 5.0


def scheduling(command: Command) -> Command:
    """Gives a command the options that `scheduler_options` takes, apart from gates."""
    for option in (
        plugin_option,
        click.option(
            "--device-preemption/--no-device-preemption",
            default=True,
            show_default=True,
            help="Preempt pods of lower priority to free their devices.",
        ),
        # The former name.
        click.option("--drain-minutes", "reserve_minutes", type=click.FloatRange(min=0), default=30, hidden=True),
        click.option(
            "--reserve-minutes",
            type=click.FloatRange(min=0),
            default=30,
            show_default=True,
            metavar="NUMBER",
            help="Reserve room for a pending group for this many minutes (0: never).",
        ),
        queue_usage_option,
        click.option(
            "--queues",
            type=click.Choice(("auto", "on", "off")),
            default="auto",
            show_default=True,
            help="Enforce the quota of Kueue and KAI queues. auto: unless Kueue or KAI itself runs in the cluster.",
        ),
        # The former two options.
        click.option("--node-devices", type=click.Choice(("ignore", "pack", "spread")), default="ignore", hidden=True),
        click.option("--devices", type=click.Choice(("kubernetes", "pack")), default="kubernetes", hidden=True),
        policy_option,
        click.option(
            "--scheduler-name",
            default="default-scheduler",
            show_default=True,
            metavar="NAME",
            help="Name of the scheduler: it places pods with this schedulerName.",
        ),
    ):
        command = option(command)
    return command


def scheduler_options(
    *,
    scheduler_name: str,
    policy: str,
    devices: str,
    node_devices: str,
    device_preemption: bool,
    reserve_minutes: float,
    queue_usage: UsageOptions | None,
    queues: str,
    plugins: tuple[str, ...],
    gates: FeatureGates,
) -> Options:
    from dray.allocation import POLICIES
    from dray.scheduling.core.options import QueueMode
    from dray.scheduling.scheduler import Options

    former = next((name for name in (node_devices, devices) if name in ("pack", "spread")), "")
    options = Options(
        scheduler_name,
        gates,
        POLICIES[former or policy],
        preempt_for_devices=device_preemption,
        reservation_seconds=60 * reserve_minutes,
        queue_usage=queue_usage,
        queues=QueueMode(queues),
    )
    return with_plugins(options, plugins)


def choosing(command: Command) -> Command:
    """Gives a command the option `controllers`."""
    return click.option(
        "--controllers",
        default="*",
        show_default=True,
        metavar="LIST",
        callback=lambda _, __, value: chosen(value),
        help="Controllers to run, separated by commas: * for all, NAME for one, -NAME to leave one out.",
    )(command)


def chosen(value: str) -> tuple[str, ...]:
    """Parses a list of controllers like kube-controller-manager: `*` for all, `-name` to leave one out."""
    from dray.controllers.registry import CONTROLLERS

    asked = [name.strip() for name in value.split(",") if name.strip()]
    unknown = [name for name in asked if name != "*" and name.removeprefix("-") not in CONTROLLERS]
    if unknown:
        raise click.BadParameter(f"unknown: {', '.join(unknown)}; there are: {', '.join(CONTROLLERS)}")
    everything = "*" in asked
    return tuple(name for name in CONTROLLERS if name in asked or (everything and f"-{name}" not in asked))


def leading(name: str) -> Callable[[Command], Command]:
    """Gives a command the options of leader election."""

    def decorate(command: Command) -> Command:
        for option in (
            click.option("--lease-name", default=name, show_default=True, metavar="NAME", help="Name of the lease."),
            click.option(
                "--lease-namespace",
                default="kube-system",
                show_default=True,
                metavar="NAME",
                help="Namespace of the lease.",
            ),
            click.option(
                "--leader-elect/--no-leader-elect",
                default=True,
                show_default=True,
                help="Elect a leader: only one process with the same lease works at a time.",
            ),
        ):
            command = option(command)
        return command

    return decorate


def identity() -> str:
    """Returns an identity for leases that is unique to this process."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def run_against(
    where: Where, options: PlaneOptions, metrics: MetricsAddress, title: str, guard: Guard | None = None
) -> NoReturn:
    """Runs components against an API server until a signal comes; exits with a status."""
    log_to_stderr()
    try:
        ending(where, lambda endpoint: run(_run(endpoint, options, metrics, title, guard)))
    except (AtWork, MetricsError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1 if isinstance(error, AtWork) else 2)


async def _run(
    endpoint: Endpoint, options: PlaneOptions, metrics: MetricsAddress, title: str, guard: Guard | None
) -> int:
    from dray.client.first_contact import FirstContact
    from dray.client.server_health import ServerHealth
    from dray.control_plane.control_plane import ControlPlane

    stop = stopping()
    health, contact = ServerHealth(endpoint.server), FirstContact(endpoint.server)
    async with clients(endpoint, health) as (client, lease_client):
        options = _trusting(options, endpoint)
        plane = ControlPlane(client, options, lease_client=lease_client)

        def obstacles() -> list[str]:
            return [*filter(None, [health.trouble or contact.trouble]), *plane.obstacles()]

        async with serving_metrics(metrics, plane.metrics, obstacles, plane.plugins) as url:
            if not await until(stop, _let_in(contact, client, lease_client, guard)):
                return 0
            click.echo(f"{title} at {endpoint.server}{f', metrics at {url}' if url else ''}")
            watching = asyncio.create_task(_watch(guard, lease_client, plane))
            try:
                return await work(plane, stop, _leading(options))
            finally:
                watching.cancel()
                await asyncio.wait([watching])


async def _let_in(contact: FirstContact, client: ApiClient, lease_client: ApiClient, guard: Guard | None) -> None:
    """Waits for a server that answers and that lets pods be read. Raises AtWork."""
    await contact.reach(
        lambda: client.request("GET", "/version"),
        # Without the right to read pods a component has no other right that it needs either.
        lambda: client.request("GET", "/api/v1/pods", query={"limit": "1"}),
    )
    if guard is not None:
        check = guard.check
        await contact.reach(lambda: check(lease_client))


def _trusting(options: PlaneOptions, endpoint: Endpoint) -> PlaneOptions:
    """Pods may trust the authority that this process trusts, unless they are given another."""
    from dataclasses import replace

    from dray.controllers.environment import RootCertificate

    if options.root.given or not endpoint.ca or endpoint.insecure:
        return options
    return replace(options, root=RootCertificate(endpoint.ca.decode(errors="replace")))


async def _watch(guard: Guard | None, client: ApiClient, plane: ControlPlane) -> None:
    if guard is not None:
        await guard.watch(client, plane.events[0])


@asynccontextmanager
async def clients(endpoint: Endpoint, health: ServerHealth | None = None) -> AsyncIterator[tuple[ApiClient, ApiClient]]:
    """One for the work, and one for the lease, which is renewed however busy the other's connections are."""
    from dray.client.api import ApiClient
    from dray.client.http import HttpTransport

    lease = HttpTransport(endpoint, timeout=_LEASE_SECONDS, connections=1, health=health)
    async with ApiClient(HttpTransport(endpoint, health=health)) as client, ApiClient(lease) as lease_client:
        yield client, lease_client


def _leading(options: PlaneOptions) -> str:
    if options.lease is None:
        return ""
    return f"leads by lease {options.lease.namespace}/{options.lease.name}"


async def work(plane: ControlPlane, stop: asyncio.Event, ready: str = "") -> int:
    """Runs it until the stop; 1 if it ended by itself."""
    from dray.client.election import LeadershipLost

    running = asyncio.create_task(plane.run())
    stopped = asyncio.create_task(stop.wait())
    greeting = asyncio.create_task(_greet(plane, ready))
    await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
    for task in (running, stopped, greeting):
        task.cancel()
    (ended, *_) = await asyncio.gather(running, stopped, greeting, return_exceptions=True)
    if stop.is_set():
        return 0
    if isinstance(ended, LeadershipLost):
        click.echo(f"error: {ended}; another process may work now", err=True)
        return 1
    if isinstance(ended, BaseException):
        raise ended
    return 1


async def _greet(plane: ControlPlane, ready: str) -> None:
    from dray.process.memory import collect_rarely

    await plane.ready.wait()
    collect_rarely()
    if ready:
        click.echo(ready)
    with plane.watch.watching():
        await asyncio.Event().wait()
