"""Options of the commands that serve the API, and their exit statuses."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from dray.api.gates import ALL_GATES, FeatureGates, GateError
from dray.api.service_addresses import DEFAULT_RANGE
from dray.cli.absolute_path import AbsolutePath

if TYPE_CHECKING:
    from dray.server.admission.opaque_configs import OpaqueConfigs
    from dray.server.running import Options

# Of the prefix of a range of Service addresses: room for a few of them, and no more than can be counted.
_FEWEST_BITS, _MOST_BITS = 8, 28
OPAQUE_CONFIG: Final = ("warn", "refuse", "ignore")
_OPTIONAL_PLUGINS: Final = frozenset({"PodSecurity", "ServiceAccount"})
Command = TypeVar("Command", bound=Callable[..., Any])


def parse_gates(ctx: click.Context, param: click.Parameter, value: str) -> FeatureGates:
    """On top of everything: all features are on unless switched off."""
    return _gates(value, locked=True)


def parse_client_gates(ctx: click.Context, param: click.Parameter, value: str) -> FeatureGates:
    return _gates(value, locked=False)


def _gates(value: str, *, locked: bool) -> FeatureGates:
    try:
        asked = FeatureGates.parse(value, locked=locked)
    except GateError as error:
        raise click.BadParameter(str(error)) from None
    named = [item.partition("=")[0].strip() for item in value.split(",") if item.strip()]
    return ALL_GATES.unlocked(**{name: asked[name] for name in named if not name.startswith("All")})


def parse_range(ctx: click.Context, param: click.Parameter, value: str) -> str:
    from ipaddress import IPv4Network

    try:
        network = IPv4Network(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}; write it like {DEFAULT_RANGE}") from None
    if not _FEWEST_BITS <= network.prefixlen <= _MOST_BITS:
        raise click.BadParameter(
            f"a range has a prefix of {_FEWEST_BITS} to {_MOST_BITS} bits, not {network.prefixlen}"
        )
    return str(network)


gates_option = click.option(
    "--feature-gates",
    "gates",
    default="",
    callback=parse_gates,
    metavar="A=false,B=true",
    help="Feature gates. Default: all on.",
)

client_gates_option = click.option(
    "--feature-gates",
    "gates",
    default="",
    callback=parse_client_gates,
    metavar="A=false,B=true",
    help="Feature gates. Default: all on. Gates that Kubernetes 1.37 locks can be off for an older server.",
)


def parse_plugins(ctx: click.Context, param: click.Parameter, value: str) -> frozenset[str]:
    """Parses a comma-separated list of admission plugins."""
    names = frozenset(name.strip() for name in value.split(",") if name.strip())
    if unknown := sorted(names - _OPTIONAL_PLUGINS):
        raise click.BadParameter(f"{', '.join(unknown)}: can be switched off: {', '.join(sorted(_OPTIONAL_PLUGINS))}")
    return names


def parse_names(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Names that clients can put into a URL, since the server's certificate and address are made of them."""
    from ipaddress import ip_address

    from dray.api.names import SUBDOMAIN_DETAIL, is_subdomain

    for name in value:
        try:
            ip_address(name)
        except ValueError:
            if not is_subdomain(name.lower()):
                raise click.BadParameter(f"{name!r} must be an IP address or {SUBDOMAIN_DETAIL}") from None
    return value


def serving(command: Command) -> Command:
    """Gives a command the options that `server_options` takes."""
    for option in (
        click.option(
            "--service-cluster-ip-range",
            "service_range",
            default=DEFAULT_RANGE,
            show_default=True,
            metavar="CIDR",
            callback=parse_range,
            help="IPv4 range for the addresses of Services.",
        ),
        click.option("--fsync", is_flag=True, help="Flush every commit to disk, to survive a power failure."),
        gates_option,
        click.option(
            "--disable-admission-plugins",
            "disabled_plugins",
            default="",
            callback=parse_plugins,
            metavar="NAME,...",
            help="Admission plugins to switch off. ServiceAccount: pods need no service account and get no token. "
            "PodSecurity: the pod-security labels of namespaces are ignored.",
        ),
        click.option(
            "--opaque-config",
            "opaque_config",
            type=click.Choice(OPAQUE_CONFIG),
            default="warn",
            show_default=True,
            help="Check the driver configuration in claims when they are stored. warn: accept mistakes with a warning. "
            "refuse: reject them. ignore: do not check.",
        ),
        click.option(
            "--require-queue",
            is_flag=True,
            help="Refuse pods and Jobs without a queue, except in system namespaces.",
        ),
        click.option(
            "--audit-log",
            type=click.Path(path_type=Path, dir_okay=False),
            help="File for the audit log, one JSON object per line.",
        ),
        click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path, dir_okay=False),
            help="File for the administrator's kubeconfig.",
        ),
        click.option(
            "--name",
            "names",
            multiple=True,
            metavar="NAME",
            callback=parse_names,
            help="Additional name or address of the server, for its certificate; repeatable.",
        ),
        click.option(
            "--insecure-http",
            "--plain",
            "plain",
            is_flag=True,
            help="Serve plain HTTP without authentication, on loopback only: every local user is administrator.",
        ),
        click.option("--port", default=6443, show_default=True, help="Port to listen on; 0: any free port."),
        click.option("--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on."),
        click.option(
            "--data",
            type=AbsolutePath(file_okay=False),
            help="Data directory. Default: keep everything in memory and lose it at the end.",
        ),
    ):
        command = option(command)
    return command


def server_options(
    *,
    data: Path | None,
    bind: str,
    port: int,
    plain: bool,
    names: tuple[str, ...],
    kubeconfig: Path | None,
    audit_log: Path | None,
    gates: FeatureGates,
    fsync: bool,
    service_range: str,
    disabled_plugins: frozenset[str],
    opaque_config: str,
    require_queue: bool,
) -> Options:
    from dray.server.running import Options

    return Options(
        data,
        bind,
        port,
        plain,
        gates,
        kubeconfig,
        audit_log,
        names,
        fsync,
        disabled_plugins,
        service_range=service_range,
        opaque_configs=_opaque_configs(opaque_config),
        require_queue=require_queue,
    )


def _opaque_configs(mode: str) -> OpaqueConfigs | None:
    from dray.server.admission.opaque_configs import OpaqueConfigs

    if mode == "ignore":
        return None
    return OpaqueConfigs(_config_problem, refuses=mode == "refuse")


def _config_problem(driver: str, parameters: Any) -> tuple[str, str] | None:
    # Most servers never see configuration for a driver.
    from dray.drivers.opaque_configs import problem_of

    problem = problem_of(driver, parameters)
    return None if problem is None else (problem.member, problem.message)


def log_to_stderr() -> None:
    """Prints warnings. A slow event loop is noted in logs only: at a terminal, nobody could do anything about it."""
    from dray.process.loop_watch import LOGGER

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if sys.stderr.isatty():
        for handler in logging.getLogger().handlers:
            handler.addFilter(lambda record: record.name != LOGGER)


@contextmanager
def failing_plainly() -> Iterator[None]:
    """Prints an error that keeps a server from starting in one line; exits with status 2."""
    from dray.control_plane.child import Refused
    from dray.server.listening import ListenError
    from dray.server.security.authority import AuthorityError
    from dray.server.security.kubeconfig import KubeconfigError
    from dray.server.security.private_files import ExposedFileError
    from dray.store.interface import StoreError

    try:
        yield
    except (AuthorityError, ExposedFileError, KubeconfigError, ListenError, OSError, Refused, StoreError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)


def run(work: Coroutine[Any, Any, int]) -> int:
    """On the faster loop, where there is one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


def stopping(*signals: signal.Signals) -> asyncio.Event:
    """Set by the signals that ask a process to end: those, or the usual ones."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in signals or (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


async def until(stop: asyncio.Event, work: Awaitable[object]) -> bool:
    """Returns True once the work is done, False if the stop comes first. Raises what the work raises."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        return task.done()
    finally:
        task.cancel()
        stopped.cancel()
        await asyncio.wait((task, stopped))
