"""A server that listens: the application on uvicorn, with TLS unless plain HTTP on loopback was chosen."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import stat
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import uvicorn

from dray.api.gates import ALL_GATES, FeatureGates
from dray.api.objects import Object
from dray.api.service_addresses import DEFAULT_RANGE
from dray.process.loop_watch import LoopWatch
from dray.process.memory import collect_rarely
from dray.server import cluster_info, connections, kubernetes_service
from dray.server.admission.opaque_configs import OpaqueConfigs
from dray.server.api_server import ApiServer
from dray.server.application import Application, Limits
from dray.server.connections import Connections, most_connections
from dray.server.context import Context
from dray.server.http_protocol import LimitedProtocol
from dray.server.listening import WILDCARDS, listen, own_address
from dray.server.security import kubeconfig
from dray.server.security.audit_log import AuditLog
from dray.server.security.certificates import renew
from dray.server.security.composition import Security
from dray.server.security.loopback import check_listen
from dray.server.security.stored_view import StoredView
from dray.store.interface import Store
from dray.store.memory import MemoryStore
from dray.store.retention import Retention
from dray.store.sqlite import SqliteStore

_log = logging.getLogger("dray.server")
_DAY = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a server; `data` is its directory, None for in memory. `names` are further names of this machine."""

    data: Path | None = None
    bind: str = "127.0.0.1"
    port: int = 6443
    plain: bool = False
    gates: FeatureGates = ALL_GATES
    kubeconfig: Path | None = None
    audit_log: Path | None = None
    names: tuple[str, ...] = ()
    fsync: bool = False
    disabled_plugins: frozenset[str] = frozenset()
    """Disabled admission plug-ins."""
    opaque_configs: OpaqueConfigs | None = None
    require_queue: bool = False
    """True if pods and Jobs of all namespaces must name a queue."""
    limits: Limits = field(default_factory=Limits)
    retention: Retention = field(default_factory=Retention)
    service_range: str = DEFAULT_RANGE
    provided: tuple[Object, ...] = ()
    """Definitions of custom kinds that are served unless the store has a definition of the kind."""


def open_store(options: Options) -> Store:
    if options.data is None:
        return MemoryStore()
    options.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    _keep_others_out(options.data)
    return SqliteStore(options.data / "store", fsync=options.fsync)


def _keep_others_out(directory: Path) -> None:
    """Removes write permission of others from a directory, so that nobody can replace the store or its keys."""
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        directory.chmod(mode & ~0o022)
        _log.warning("%s was writable for everybody (mode %04o); now only for its owner", directory, mode)


def open_security(options: Options, view: StoredView) -> Security:
    if options.data is None:
        return Security.ephemeral(view, plain=options.plain)
    return Security.open(options.data / "pki", view, plain=options.plain)


class HasStreams(Protocol):
    def end_streams(self) -> None: ...


class PatientServer(uvicorn.Server):
    """Ends streams before it waits for connections to close; handles no signals."""

    def __init__(self, config: uvicorn.Config, application: HasStreams) -> None:
        super().__init__(config)
        self._application = application

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop: Any = asyncio.get_running_loop()
        create_server = loop.create_server

        def create_impatient_server(*arguments: Any, **options: Any) -> Any:
            if options.get("ssl") is not None:
                options["ssl_handshake_timeout"] = connections.HANDSHAKE_SECONDS
            return create_server(*arguments, **options)

        # uvicorn has no such option, and a client that never starts its handshake would hold a descriptor for a minute.
        loop.create_server = create_impatient_server
        try:
            await super().startup(sockets)
        finally:
            del loop.create_server

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._application.end_streams()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


class RunningServer:
    """A server that runs; `url` is its address, `application` can also be called in this process."""

    def __init__(self, options: Options) -> None:
        if options.plain:
            check_listen(options.bind)
        self.options = options
        self.store = open_store(options)
        security = open_security(options, StoredView(self.store))
        self.context = Context(
            self.store,
            options.gates,
            security,
            disabled_plugins=options.disabled_plugins,
            opaque_configs=options.opaque_configs,
            require_queue=options.require_queue,
            service_range=options.service_range,
        )
        self.context.health.expect("bootstrap-controller")
        self.audit = AuditLog(options.audit_log) if options.audit_log else None
        server = ApiServer(self.context, retention=options.retention, provided=options.provided)
        self._loop_watch = LoopWatch(server.metrics.registry)
        self.application = Application(server, limits=options.limits, audit=self.audit)
        self._tls = None if options.plain else security.server_context(self._names())
        self._socket = listen(options.bind, options.port)
        self.url = self.url_at("127.0.0.1" if options.bind in WILDCARDS else options.bind)
        self.public_url = self.url_at(self._public_host())
        """The URL for other machines."""

    def url_at(self, host: str) -> str:
        """Returns the URL for clients that use that name or address, which the certificate must include."""
        host = f"[{host}]" if ":" in host else host
        return f"{'http' if self.options.plain else 'https'}://{host}:{self._socket.getsockname()[1]}"

    def _public_host(self) -> str:
        if self.options.names:
            return self.options.names[0]
        return own_address() if self.options.bind in WILDCARDS else self.options.bind

    def _names(self) -> tuple[str, ...]:
        """Returns the names that clients use for the server and that its certificate must include."""
        own = (own_address(),) if self.options.bind in WILDCARDS else ()
        return (self.options.bind, self._public_host(), *self.options.names, *own)

    def kubeconfig(self, name: str = "dray") -> dict[str, Any]:
        """Returns the administrator's kubeconfig."""
        security = self.context.security
        if security.authority is None:
            return kubeconfig.plain(self.url, name=name)
        admin = security.authority.admin()
        return kubeconfig.secure(self.url, security.authority.certificate, credential=admin, name=name)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[RunningServer]:
        """Serves within the context."""
        collect_rarely()
        written = b""
        server = PatientServer(self._config(), self.application)
        serving = asyncio.create_task(server.serve(sockets=[self._socket]))
        keeping = asyncio.create_task(self._keep_certificate())
        try:
            while not server.started:
                if serving.done():
                    await serving
                    raise RuntimeError("the server did not start")
                await asyncio.sleep(0.01)
            if (authority := self.context.security.authority) is not None:
                await cluster_info.publish(self.context, self.public_url, authority.certificate)
            await kubernetes_service.publish(self.context, self._public_host(), self._socket.getsockname()[1])
            self.context.health.finish("bootstrap-controller")
            if self.options.kubeconfig is not None:
                written = kubeconfig.write_kubeconfig(self.options.kubeconfig, self.kubeconfig())
            with self._loop_watch.watching():
                yield self
        finally:
            server.should_exit = True
            keeping.cancel()
            await asyncio.gather(serving, keeping, return_exceptions=True)
            await self.store.close()
            if self.audit is not None:
                self.audit.close()
            # A server with data can be started again with the same keys; this one's keys are gone.
            if written and self.options.kubeconfig is not None and self.options.data is None:
                kubeconfig.remove_kubeconfig(self.options.kubeconfig, written)

    def _config(self) -> uvicorn.Config:
        factory: Callable[..., ssl.SSLContext] | None = None
        if self._tls is not None:
            context = self._tls
            factory = lambda config, default: context  # noqa: E731 - a closure is all uvicorn wants
        return uvicorn.Config(
            self.application,
            http=partial(LimitedProtocol, connections=Connections(most_connections())),  # type: ignore[arg-type] # it is called
            ws="none",
            loop="uvloop",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=90,
            timeout_graceful_shutdown=5,
            ssl_context_factory=factory,
        )

    async def _keep_certificate(self) -> None:
        """Renews the server's certificate while it runs."""
        while True:
            await asyncio.sleep(_DAY)
            authority = self.context.security.authority
            if authority is not None and self._tls is not None:
                renew(self._tls, authority, self._names())
