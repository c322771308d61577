"""The API server that `apply`, `get` and `delete` speak to.

`Where` is what the command line says about it, `Cluster` the connection that comes of it. `ask` does a command's work
on a cluster and ends the command: with 1 if the server refused something, with 2 if it could not be asked, after one
line that says what to do. The client and its HTTP library are imported once there is something to ask.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from dray.answers.advice import advice_on
from dray.answers.errors import InvalidInput, NotThere
from dray.answers.one_line import one_line
from dray.cli.resource_names import Catalog

if TYPE_CHECKING:
    from dray.client.api import ApiClient
    from dray.client.channels import Channels
    from dray.client.discovery import ServedResource
    from dray.client.endpoint import Endpoint
    from dray.client.errors import ApiError, ClientError
    from dray.client.transport import Answer, Request, Stream, Transport

Command = TypeVar("Command", bound=Callable[..., Any])

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_WORD_STARTS: Final = re.compile(r"(?<!^)(?=[A-Z])")
_ESCAPE: Final = re.compile(r"\\(.)")
# Somebody waits at a terminal: enough for a hiccup, and no long silence if the server is not there.
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Where:
    """The server to use: empty values are taken from the kubeconfig; with a `snapshot` no server is asked."""

    kubeconfig: Path | None
    context: str
    namespace: str
    snapshot: Path | None = None


def located(command: Command) -> Command:
    """Gives a command the options that make its argument `where`."""
    namespace = click.option(
        "--namespace", "-n", default="", metavar="NAME", help="Namespace. Default: the one of the context."
    )
    return reaching(namespace(command))


def reaching(command: Command) -> Command:
    """Gives a command the options that say which server."""
    for option in (
        click.option("--context", default="", metavar="NAME", help="Kubeconfig context to use."),
        click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path),
            help="Kubeconfig file. Default: $KUBECONFIG, ~/.kube/config, or the cluster that dray up runs here.",
        ),
    ):
        command = option(command)
    return command


def sourced(command: Command) -> Command:
    """Gives a command the options that say which server, or which snapshot."""
    return reaching(snapshot_option(command))


def snapshot_option(command: Command) -> Command:
    return click.option(
        "--snapshot",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Read this file of `dray snapshot` instead of a cluster.",
    )(command)


class Accepting:
    """A transport that passes on the server's warnings, each once, and with `accept` asks for another form."""

    def __init__(self, transport: Transport, accept: str = "") -> None:
        self._transport = transport
        self.watch_seconds = transport.watch_seconds
        self._accept = accept
        self._warned: set[str] = set()

    async def send(self, request: Request) -> Answer:
        answer = await self._transport.send(self._asking(request))
        for text in _WARNING.findall(answer.headers.get("warning", "")):
            if text not in self._warned:
                self._warned.add(text)
                click.echo(one_line("Warning: " + _ESCAPE.sub(r"\1", text)), err=True)
        return answer

    async def stream(self, request: Request) -> Stream:
        return await self._transport.stream(self._asking(request))

    async def close(self) -> None:
        await self._transport.close()

    def _asking(self, request: Request) -> Request:
        from msgspec.structs import replace

        if not self._accept:
            return request
        return replace(request, headers={**request.headers, "accept": self._accept})


class Cluster:
    """`namespace` is where things are that do not say so themselves; `insists` if the command line named it.

    `now` gives the time in seconds since 1970; with a snapshot, that at which it was taken.
    """

    def __init__(
        self, transport: Transport, namespace: str, *, insists: bool, now: Callable[[], float] = time.time
    ) -> None:
        self._transport = transport
        self.now = now
        self._catalog: Catalog | None = None
        self.namespace = namespace
        self.insists = insists
        self.client = self.speaking()

    def speaking(self, accept: str = "") -> ApiClient:
        from dray.client.api import ApiClient
        from dray.client.retries import Retries

        return ApiClient(Accepting(self._transport, accept), retries=Retries(attempts=_ATTEMPTS))

    def channels(self, request: Request) -> AbstractAsyncContextManager[Channels]:
        """Connects to a container."""
        from dray.client.http import HttpTransport

        assert isinstance(self._transport, HttpTransport)
        return self._transport.channels(request)

    async def catalog(self, *, anew: bool = False) -> Catalog:
        from dray.client.discovery import discover

        if self._catalog is None or anew:
            self._catalog = Catalog((await discover(self.client)).resources)
        return self._catalog

    async def kinds(self, types: str) -> list[ServedResource]:
        """Finds the resources for a comma-separated list of types. Raises ClickException if one is not served."""
        catalog = await self.catalog()
        found: list[ServedResource] = []
        for text in types.split(","):
            named = catalog.named(text)
            if not named:
                similar = " or ".join(catalog.similar(text))
                hint = f"; did you mean {similar}?" if similar else ""
                raise click.ClickException(f'the server doesn\'t have a resource type "{text}"{hint}')
            found += named
        return found

    def place(self, kind: ServedResource) -> str:
        return self.namespace if kind.namespaced else ""


def ask(where: Where, work: Callable[[Cluster], Awaitable[int]], then: Callable[[], int] | None = None) -> NoReturn:
    """Ends the command with the status that the work gives, or with what kept it from being done.

    `then` is what to do after work that gave 0, without a connection and without an event loop; its status counts.
    """
    try:
        if where.snapshot is not None:
            _ask_snapshot(where, where.snapshot, work, then)
        ending(where, lambda endpoint: _finished(asyncio.run(_work(endpoint, where, work)), then))
    except InvalidInput as error:
        raise (NotFound if isinstance(error, NotThere) else Unanswerable)(error) from None


class Unanswerable(click.ClickException):
    """The question itself is wrong, or is about something that the cluster does not have."""

    exit_code = 2

    def __init__(self, error: InvalidInput) -> None:
        super().__init__("\n".join(map(one_line, error.problems)))


class NotFound(Unanswerable):
    exit_code = 1


def _finished(status: int, then: Callable[[], int] | None) -> int:
    return then() if then is not None and status == 0 else status


def _ask_snapshot(
    where: Where, path: Path, work: Callable[[Cluster], Awaitable[int]], then: Callable[[], int] | None
) -> NoReturn:
    from dray.client.errors import ApiError

    if where.kubeconfig or where.context:
        raise click.UsageError("--snapshot reads a file: leave --kubeconfig and --context out")
    cluster = snapshot_cluster(path, where.namespace)
    try:
        sys.exit(_finished(asyncio.run(_awaited(work(cluster))), then))
    except ApiError as error:
        complain(error)
        sys.exit(1)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # No API server checked the objects of a file.
        click.echo(one_line(f"error: {path} has an object that cannot be read: {error!r}"), err=True)
        sys.exit(2)


def snapshot_cluster(path: Path, namespace: str = "") -> Cluster:
    """Returns the cluster of a snapshot; leaves with status 2 if the file cannot be read."""
    from dray.snapshot.files import SnapshotError, read
    from dray.snapshot.transport import SnapshotTransport

    try:
        snapshot = read(path)
    except SnapshotError as error:
        click.echo(one_line(f"error: {error}"), err=True)
        sys.exit(2)
    header = snapshot.header
    transport = SnapshotTransport(snapshot)
    return Cluster(transport, namespace or header.namespace, insists=bool(namespace), now=lambda: header.taken_at)


async def _awaited(status: Awaitable[int]) -> int:
    return await status


def ending(where: Where, work: Callable[[Endpoint], int]) -> NoReturn:
    ending_at(lambda: endpoint_of(where), work)


def ending_at(find: Callable[[], Endpoint], work: Callable[[Endpoint], int], server: str = "") -> NoReturn:
    from dray.client.errors import ApiError, ClientError

    try:
        endpoint = find()
        server = endpoint.server
        sys.exit(work(endpoint))
    except ApiError as error:
        complain(error)
        sys.exit(1)
    except ClientError as error:
        complain_unasked(error, server)
        sys.exit(2)


async def _work(endpoint: Endpoint, where: Where, work: Callable[[Cluster], Awaitable[int]]) -> int:
    from dray.client.http import HttpTransport

    transport = HttpTransport(endpoint)
    try:
        return await work(Cluster(transport, where.namespace or endpoint.namespace, insists=bool(where.namespace)))
    finally:
        await transport.close()


def endpoint_of(where: Where) -> Endpoint:
    from dray.answers.endpoints import find_endpoint

    return find_endpoint(where.kubeconfig, where.context)


def complain_unasked(error: ClientError, server: str) -> None:
    problem, advice = _unasked(error, server)
    click.echo(f"error: {one_line(problem)}{advice}", err=True)


def _unasked(error: ClientError, server: str) -> tuple[str, str]:
    """Returns why no request reached the server, and advice."""
    from dray.client.errors import ConnectionFailed

    if isinstance(error, ConnectionFailed):
        return f"cannot connect to {server}: {error}", "; is the server running, and is this the right --context?"
    if "certificate verify failed" in str(error).lower():
        advice = "; use the kubeconfig of this server; a server without --data writes a new one at each start"
        return f"{server} has a certificate that this kubeconfig does not trust: {error}", advice
    return str(error), ""


def complain(error: ApiError) -> None:
    """Prints an error that the server returned, and what to do about it if the message does not say so."""
    advice = advice_on(error)
    click.echo(one_line(f"error: {error}{_reason(error)}") + (f"; {advice}" if advice else ""), err=True)


def _reason(error: ApiError) -> str:
    """Returns the reason in parentheses, unless the message contains its words: "NotFound" is in "x not found"."""
    words = _WORD_STARTS.sub(" ", error.reason)
    return "" if not words or words.lower() in str(error).lower() else f" ({error.reason})"
