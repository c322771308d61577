"""The certificate that pods trust, in every namespace."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from click.testing import CliRunner

from dray.cli.controllers import controllers
from dray.client.api import ApiClient
from dray.client.errors import NotFound
from dray.client.interface import Selection
from dray.control_plane.control_plane import ControlPlane, PlaneOptions
from dray.controllers.environment import RootCertificate
from dray.server.inprocess import InProcessTransport
from dray.server.running import Options, RunningServer
from dray.server.security.authority import Authority
from dray.testing.cluster import LocalCluster, kind_of
from dray.testing.objects import namespace
from tests.cli.running import DRAY

NAME = "kube-root-ca.crt"


async def test_every_namespace_has_what_the_server_wrote():
    async with LocalCluster(controllers=["root-ca-cert-publisher"]) as cluster:
        await cluster.create(namespace("team"))
        found = await cluster.eventually(lambda: cluster.get("ConfigMap", NAME, namespace="team"))
        assert found["data"]["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")

        async def is_back(place):
            now = await cluster.get("ConfigMap", NAME, namespace=place)
            return now is not None and now["data"] == found["data"]

        await cluster.client.update(kind_of("ConfigMap"), {**found, "data": {"ca.crt": "another"}})
        await cluster.eventually(lambda: is_back("team"))
        for place in ("team", "kube-system"):
            await cluster.delete("ConfigMap", NAME, namespace=place)
            await cluster.eventually(lambda place=place: is_back(place))


async def test_another_certificate_of_the_server_reaches_all():
    async with LocalCluster(controllers=["root-ca-cert-publisher"]) as cluster:
        await cluster.eventually(lambda: cluster.get("ConfigMap", NAME))
        source = await cluster.get("ConfigMap", NAME, namespace="kube-system")
        await cluster.client.update(kind_of("ConfigMap"), {**source, "data": {"ca.crt": "renewed"}})

        async def is_renewed():
            return (await cluster.get("ConfigMap", NAME))["data"] == {"ca.crt": "renewed"}

        await cluster.eventually(is_renewed)


CONFIG_MAPS = kind_of("ConfigMap")
PUBLISHER = "root-ca-cert-publisher"


@contextlib.asynccontextmanager
async def foreign_server(**options):
    """A server whose kube-system has no certificate, as that of Kubernetes."""
    async with RunningServer(Options(port=0, **options)).running() as server:
        client = ApiClient(InProcessTransport(server.application))
        await client.delete(CONFIG_MAPS, NAME, namespace="kube-system")
        yield server, client


async def published(client, namespace):
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(NotFound):
                return (await client.get(CONFIG_MAPS, NAME, namespace=namespace))["data"]
            await asyncio.sleep(0.05)


async def logged(caplog, client, root):
    """Returns the log of the publisher after its start."""
    plane = ControlPlane(client, PlaneOptions(controllers=(PUBLISHER,), root=root))
    running = asyncio.create_task(plane.run())
    await plane.ready.wait()
    async with asyncio.timeout(60):
        while NAME not in caplog.text:
            await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return caplog.text


@pytest.mark.parametrize("given", [False, True])
async def test_the_certificate_of_the_kubeconfig_or_a_given_one_is_published_if_the_server_has_none(tmp_path, given):
    kubeconfig, file = tmp_path / "config", tmp_path / "ca.crt"
    file.write_bytes(Authority.ephemeral().certificate)
    async with foreign_server(kubeconfig=kubeconfig) as (server, client):
        arguments = ["--kubeconfig", str(kubeconfig), "--controllers", PUBLISHER, "--no-leader-elect"]
        arguments += ["--root-ca-file", str(file)] if given else []
        process = await asyncio.create_subprocess_exec(*DRAY, "controllers", *arguments)
        try:
            wanted = file.read_text() if given else server.context.security.authority.certificate.decode()
            for place in ("default", "kube-system"):
                assert await published(client, place) == {"ca.crt": wanted}
        finally:
            process.kill()
            await process.wait()


async def test_the_log_asks_for_root_ca_file_if_no_certificate_is_known(caplog):
    async with foreign_server() as (_, client):
        assert "give --root-ca-file" in await logged(caplog, client, RootCertificate())
        assert (await client.list(CONFIG_MAPS, selection=Selection(fields=f"metadata.name={NAME}")))["items"] == []


def test_a_file_without_a_certificate_is_refused(tmp_path):
    (tmp_path / "empty").touch()
    for name, why in (("empty", "has no certificate in PEM"), ("missing", "No such file")):
        ended = CliRunner().invoke(controllers, ["--root-ca-file", str(tmp_path / name)])
        assert (ended.exit_code, why in ended.output) == (2, True), ended.output
