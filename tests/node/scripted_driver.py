"""A driver of a few lines on bare gRPC, without the SDK: it answers as it is told, and notes what it was asked."""

import itertools
import json
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

from dray._proto import kubelet_pb2 as messages
from dray._proto.services import DRA_V1, DRA_V1BETA1, HEALTH_V1, REGISTRATION

DRIVER = "gpu.example.com"
BOTH = ("v1.DRAPlugin", "v1beta1.DRAPlugin")


class ScriptedDriver:
    """Claims that it prepares have devices in a CDI file that is always there: `example.com/gpu=<claim>` and others."""

    def __init__(self, root: Path, *, name=DRIVER, suffix="", versions=BOTH, type_="DRAPlugin", endpoint=None):
        directory = root / "plugins" / name
        directory.mkdir(parents=True, exist_ok=True)
        self.socket = directory / f"dra{suffix}.sock"
        self.registration_socket = root / "plugins_registry" / f"{name}{suffix}-reg.sock"
        self.info = messages.PluginInfo(
            type=type_,
            name=name,
            endpoint=str(self.socket) if endpoint is None else endpoint,
            supported_versions=versions,
        )
        names = ["one", "two", "c", "shared", "good", "bad", *"0 1 a b every".split()]
        for kind in ("example.com/gpu", "x.com/g"):
            devices = [{"name": each, "containerEdits": {"env": [f"DEVICE={each}"]}} for each in names]
            spec = {"cdiVersion": "0.5.0", "kind": kind, "devices": devices}
            (root / "cdi" / f"{kind.replace('/', '-')}.json").write_text(json.dumps(spec))
        self.statuses = []
        self.asked = []
        self.errors = {}
        """What to answer for a claim instead of devices, by its name."""
        self.devices = {}
        """Lists of Device messages by the name of a claim; one named after the claim unless told."""
        self.hold = None
        """An asyncio.Event for which calls wait before they are answered."""
        self.reports = None
        """An asyncio.Queue of health responses."""
        self._servers = []

    async def start(self):
        plugin = grpc.aio.server()
        DRA_V1.serve(_Plugin(self, "v1"), plugin)
        DRA_V1BETA1.serve(_Plugin(self, "v1beta1"), plugin)
        HEALTH_V1.serve(_Health(self), plugin)
        registration = grpc.aio.server()
        REGISTRATION.serve(_Registration(self), registration)
        for server, path in ((plugin, self.socket), (registration, self.registration_socket)):
            path.unlink(missing_ok=True)
            server.add_insecure_port(f"unix:{path}")
            await server.start()
            self._servers.append(server)
        return self

    async def stop(self):
        for server in reversed(self._servers):
            await server.stop(grace=0)
        self._servers.clear()
        self.registration_socket.unlink(missing_ok=True)
        self.socket.unlink(missing_ok=True)


@asynccontextmanager
async def scripted_driver(root, **options):
    driver = await ScriptedDriver(root, **options).start()
    try:
        yield driver
    finally:
        await driver.stop()


class _Registration:
    def __init__(self, driver):
        self._driver = driver

    async def GetInfo(self, request, context):
        return self._driver.info

    async def NotifyRegistrationStatus(self, request, context):
        self._driver.statuses.append((request.plugin_registered, request.error))
        return messages.RegistrationStatusResponse()


class _Plugin:
    def __init__(self, driver, version):
        self._driver = driver
        self._version = version

    async def _heard(self, verb, request):
        self._driver.asked.append((self._version, verb, [each.name for each in request.claims]))
        if self._driver.hold:
            await self._driver.hold.wait()

    async def NodePrepareResources(self, request, context):
        driver = self._driver
        await self._heard("prepare", request)
        answer = messages.NodePrepareResourcesResponse()
        for claim in request.claims:
            entry = answer.claims[claim.uid]
            if error := driver.errors.get(claim.name):
                entry.error = error
                continue
            ids = [f"example.com/gpu={claim.name}"]
            default = [{"pool_name": "worker", "device_name": "gpu-0", "cdi_device_ids": ids}]
            for each in driver.devices.get(claim.name, default):
                entry.devices.append(messages.Device(**each))
        return answer

    async def NodeUnprepareResources(self, request, context):
        await self._heard("unprepare", request)
        answer = messages.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            answer.claims[claim.uid].error = self._driver.errors.get(claim.name, "")
        return answer


class _Health:
    def __init__(self, driver):
        self._driver = driver

    async def NodeWatchResources(self, request, context):
        if self._driver.reports is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no health")
        for _ in itertools.count():
            response = await self._driver.reports.get()
            if response is None:
                return
            yield response
