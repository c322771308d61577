"""Metrics and health over HTTP: `/metrics`, `/healthz`, `/readyz`, and nothing else.

It runs in the event loop of the component, so that an answer from `/healthz` shows that the loop still runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from dray.answers.one_line import one_line

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

_LAST_PORT: Final = 65535
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_PATIENCE: Final = 5.0


class MetricsError(Exception):
    """Metrics cannot be served where they should be."""


@dataclass(frozen=True, slots=True)
class MetricsAddress:
    """Address for metrics; no server is started if `port` is None."""

    bind: str
    port: int | None


def metrics_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the options `metrics_bind` and `metrics_port`."""
    command = click.option(
        "--metrics-bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address for metrics."
    )(command)
    return click.option(
        "--metrics-port", type=int, help="Port for /metrics and /healthz; 0: any free port. Default: not served."
    )(command)


@asynccontextmanager
async def serving_metrics(
    place: MetricsAddress,
    registries: Callable[[], Iterable[CollectorRegistry]],
    obstacles: Callable[[], list[str]],
    plugins: Callable[[], Mapping[str, str]] = dict,
) -> AsyncIterator[str]:
    """Serves metrics inside the context; yields the URL, "" without a port. `/readyz` lists `obstacles`;
    `/readyz?verbose` also lists the users' plugins, and why one is not used."""
    if place.port is None:
        yield ""
        return
    together = Together(registries)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(response(head, together, obstacles, plugins))
                await writer.drain()
        writer.close()

    where = f"cannot serve metrics on {place.bind}:{place.port}"
    # The faster loop takes a larger number for the port of its last 16 bits.
    if not 0 <= place.port <= _LAST_PORT:
        raise MetricsError(f"{where}: a port is a number from 0 to {_LAST_PORT}")
    try:
        server = await asyncio.start_server(answer, place.bind, place.port)
    except OSError as error:
        raise MetricsError(f"{where}: {error.strerror or error}") from error
    async with server:
        host, port = server.sockets[0].getsockname()[:2]
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"


def response(
    head: bytes,
    together: Together,
    obstacles: Callable[[], list[str]],
    plugins: Callable[[], Mapping[str, str]] = dict,
) -> bytes:
    line = head.split(b"\r\n", 1)[0].decode("latin-1")
    method, _, rest = line.partition(" ")
    path, _, query = rest.partition(" ")[0].partition("?")
    if method not in ("GET", "HEAD"):
        code, body = "405 Method Not Allowed", b"method not allowed\n"
    elif path == "/metrics":
        code, body = "200 OK", together.text()
    elif path in ("/healthz", "/livez"):
        code, body = "200 OK", b"ok"
    elif path == "/readyz":
        found = "".join(f"{one_line(obstacle)}\n" for obstacle in obstacles())
        told = _told(plugins()) if query.partition("=")[0] == "verbose" else ""
        code = "503 Service Unavailable" if found else "200 OK"
        body = f"{told}{found or 'ok'}".encode()
    else:
        code, body = "404 Not Found", f"{one_line(path)}: there are /metrics, /healthz and /readyz\n".encode()
    lines = f"HTTP/1.1 {code}\r\nContent-Type: {_TEXT}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return lines.encode() + (b"" if method == "HEAD" else body)


def _told(plugins: Mapping[str, str]) -> str:
    return "".join(
        f"[!]plugin {one_line(f'{name} {why}')}\n" if why else f"[+]plugin {name} ok\n" for name, why in plugins.items()
    )


class Together:
    """Several registries as one: families of one name are joined, and samples of one name and labels added up."""

    def __init__(self, registries: Callable[[], Iterable[CollectorRegistry]]) -> None:
        self._registries = registries

    def text(self) -> bytes:
        from prometheus_client import generate_latest

        # Only `collect` is asked for.
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for registry in self._registries():
            for metric in registry.collect():
                known = families.get(metric.name)
                if known is None:
                    families[metric.name] = metric
                else:
                    _join(known, metric)
        return iter(families.values())


def _join(known: Metric, more: Metric) -> None:
    totals = {
        (known_sample.name, tuple(sorted(known_sample.labels.items()))): known_sample for known_sample in known.samples
    }
    for sample in more.samples:
        key = (sample.name, tuple(sorted(sample.labels.items())))
        before = totals.get(key)
        # When a counter was made is no amount.
        if before is None or sample.name.endswith("_created"):
            totals[key] = sample
        else:
            totals[key] = before._replace(value=before.value + sample.value)
    known.samples = list(totals.values())
