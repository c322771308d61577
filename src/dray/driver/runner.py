"""Runs a driver beside a kubelet.

    await DriverRunner(Lamps(), client, RunnerOptions(node_name="node-1")).run()

The DRA socket serves before the registration socket appears, so that the kubelet never finds an endpoint that does
not answer. At the end the registration goes first, calls in progress are finished, and slices stay: a successor takes
them over, or the kubelet removes them after half a minute. A driver without node has no sockets: it publishes only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Final

import grpc
import msgspec

from dray._proto.services import REGISTRATION
from dray.api.names import is_subdomain
from dray.client.api import ApiClient
from dray.driver.cdi.directory import CdiDirectory
from dray.driver.cdi.names import check_kind
from dray.driver.checkpoint import Checkpoint
from dray.driver.claims import AllocatedDevice, ClaimReference
from dray.driver.device_status import DeviceStatuses
from dray.driver.driver import Driver, DriverContext
from dray.driver.errors import DriverError
from dray.driver.files import remove_file, replace_file
from dray.driver.health_reports import HealthReports
from dray.driver.injection import Injection
from dray.driver.metadata_files import MetadataFiles
from dray.driver.metrics import DriverMetrics
from dray.driver.options import DEVICE_FILES, DRA_V1, DRA_V1BETA1, SERVICES, RunnerOptions
from dray.driver.preparation import Preparation
from dray.driver.prepared import DeviceMetadata
from dray.driver.serialization import DriverLock
from dray.driver.services import RegistrationService, add_services
from dray.driver.sigterm import cancelled_by_sigterm
from dray.driver.slices.publisher import Publisher
from dray.driver.sockets import ServedSocket, remove_dead_sockets
from dray.driver.utilization import UtilizationReports
from dray.process.tasks import end_tasks

_LONGEST_NAME: Final = 63
_logger = logging.getLogger(__name__)


class DriverRunner:
    def __init__(self, driver: Driver, client: ApiClient, options: RunnerOptions) -> None:
        _check(driver, options)
        self.driver = driver
        self.options = options
        self.metrics = DriverMetrics(driver.name)
        self._client = client
        self._directory = options.plugin_directory(driver.name)
        self._statuses = DeviceStatuses(client, driver.name, options.node_name, self.metrics)
        self._metadata = self._make_metadata()
        driver.context = DriverContext(
            node_name=options.node_name,
            directory=self._directory,
            client=client,
            publish=self.publish,
            apply_device_status=self._statuses.apply,
            update_metadata=self._update_metadata,
            recorded_claims=lambda: self._checkpoint.recorded_claims(),
        )
        reports_health = type(driver).health is not Driver.health
        self._health = HealthReports(driver, lambda: self.publisher.retaint(), self.metrics) if reports_health else None
        self.publisher = Publisher(driver, client, options, self.metrics, self._health)
        self.preparation = self._make_preparation()
        # In the order of preference, however they were given.
        services = [
            service
            for service in SERVICES
            if service in options.services and (reports_health or "Health" not in service)
        ]
        self.registration = RegistrationService(
            driver.name, options.endpoint(driver.name), services, self.publisher.registered
        )
        self._dra = ServedSocket(
            options.dra_socket(driver.name),
            lambda server: add_services(server, services, self.preparation, self._health),
        )
        self._registrar = ServedSocket(options.registration_socket(driver.name), self._add_registration)
        reports_utilization = type(driver).utilization is not Driver.utilization and options.utilization_seconds > 0
        self.utilization = (
            UtilizationReports(
                driver,
                client,
                self._statuses,
                lambda: self._checkpoint.recorded_claims(),
                self.metrics,
                options,
            )
            if reports_utilization
            else None
        )
        self._background: list[asyncio.Task[None]] = []
        self._started = False

    def _make_preparation(self) -> Preparation:
        driver, options, directory = self.driver, self.options, self._directory
        boot_id = options.boot_id_file.read_text().strip() if options.boot_id_file.exists() else ""
        self._checkpoint = Checkpoint(directory / "claims", boot_id)
        return Preparation(
            driver=driver,
            client=self._client,
            checkpoint=self._checkpoint,
            injection=Injection(driver.cdi_kind or f"k8s.{driver.name}/claim", CdiDirectory(options.cdi_directory)),
            metadata=self._metadata,
            statuses=self._statuses,
            lock=DriverLock(directory / "serialize.lock" if options.pod_uid else None) if driver.serialize else None,
            metrics=self.metrics,
        )

    def _make_metadata(self) -> MetadataFiles | None:
        options, directory = self.options, self._directory
        if not options.metadata_versions:
            return None
        seen = options.host_directory or directory
        cdi = CdiDirectory(options.cdi_directory)
        return MetadataFiles(self.driver.name, directory, seen, cdi, options.metadata_versions)

    def _update_metadata(self, reference: ClaimReference, changes: Mapping[AllocatedDevice, DeviceMetadata]) -> None:
        if self._metadata is None:
            raise DriverError("metadata files are off: give the runner `metadata_versions`")
        self._metadata.update(reference, changes)

    def publish(self) -> None:
        """Has the driver's pools asked for again and published, soon."""
        self.publisher.publish()

    async def __aenter__(self) -> DriverRunner:
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stop()

    async def run(self) -> None:
        """Starts the driver, serves, and stops it: when this task is cancelled, or when the process gets SIGTERM.

        A process that ends without stopping leaves its registration socket behind, and the kubelet tries it for ever.
        SIGTERM is left alone where the process handles it already, and in threads other than the main one.
        """
        with cancelled_by_sigterm():
            async with self:
                await self.serve()

    async def serve(self) -> None:
        """Serves until it is cancelled or a part fails permanently; the process should then end and be restarted."""
        await asyncio.gather(*self._background)

    async def _start(self) -> None:
        serves = bool(self.options.node_name)
        if serves:
            self._make_directories()
            self._checkpoint.open()
        await self.driver.start()
        self._started = True
        if serves:
            self._remove_dead_sockets()
            self._say_device_files()
            await self._dra.start()
            await self._registrar.start()
            self._begin("sockets", self._keep_sockets())
            if self.utilization is not None:
                self._begin("utilization", self.utilization.run())
        if self._health is not None:
            self._begin("health", self._health.run())
        self._begin("slices", self.publisher.run())

    async def _stop(self) -> None:
        await self._registrar.stop(self.options.grace)
        if self._health is not None:
            await self._health.close()
        await self._dra.stop(self.options.grace)
        await end_tasks(self._background)
        if self._started:
            self._started = False
            await self.driver.stop()

    def _begin(self, part: str, work: Coroutine[Any, Any, None]) -> None:
        self._background.append(asyncio.create_task(work, name=f"driver {self.driver.name}: {part}"))

    async def _keep_sockets(self) -> None:
        while True:
            await asyncio.sleep(self.options.socket_check)
            for socket in (self._dra, self._registrar):
                try:
                    await socket.keep(self.options.grace)
                except (OSError, DriverError) as error:
                    self.metrics.failed("sockets")
                    _logger.error("driver %s: %s", self.driver.name, error)

    def _remove_dead_sockets(self) -> None:
        """Removes those of earlier instances in a rolling update, whose names have other uids."""
        remove_dead_sockets(self.options.registry(), f"{self.driver.name}-*-reg.sock")
        remove_dead_sockets(self._directory, "dra-*.sock")

    def _make_directories(self) -> None:
        registry = self.options.registry()
        if not registry.is_dir():
            raise DriverError(
                f"{registry} does not exist: is {self.options.kubelet_root} the kubelet's root directory?"
            )
        self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)

    def _say_device_files(self) -> None:
        path, patterns = self._directory / DEVICE_FILES, list(self.driver.device_files())
        if patterns:
            replace_file(path, msgspec.json.encode(patterns), mode=0o644)
        else:
            remove_file(path)

    def _add_registration(self, server: grpc.aio.Server) -> None:
        REGISTRATION.serve(self.registration, server)


def _check(driver: Driver, options: RunnerOptions) -> None:
    name = getattr(driver, "name", "")
    if not is_subdomain(name) or len(name) > _LONGEST_NAME:
        raise DriverError(f"the name of driver {name!r} must be a DNS subdomain of at most {_LONGEST_NAME} characters")
    if driver.cdi_kind:
        check_kind(driver.cdi_kind)
    unknown = set(options.services) - set(SERVICES)
    if unknown:
        raise DriverError(f"services {', '.join(sorted(unknown))}: known are {', '.join(SERVICES)}")
    if not {DRA_V1, DRA_V1BETA1} & set(options.services):
        raise DriverError(f"a kubelet needs {DRA_V1} or {DRA_V1BETA1} among the services")
