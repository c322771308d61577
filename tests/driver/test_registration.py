"""Registration with a kubelet, and the sockets on which a driver is served."""

import asyncio
import socket
import stat
from pathlib import Path

import grpc
import pytest

from dray.driver import DriverError
from dray.driver.runner import DriverRunner
from tests.driver.independent import Plugin
from tests.driver.node import NAME, Lamps, Node

GET_INFO = "pluginregistration.Registration/GetInfo"
NOTIFY = "pluginregistration.Registration/NotifyRegistrationStatus"


async def test_the_kubelet_finds_the_driver_and_what_it_speaks(kubelet_node: Node) -> None:
    async with kubelet_node.running(Lamps()) as runner:
        (socket,) = (kubelet_node.root / "plugins_registry").iterdir()
        assert socket.name == f"{NAME}-reg.sock"
        async with Plugin(socket) as registrar:
            info = await registrar.call(GET_INFO)
            assert (info.type, info.name) == ("DRAPlugin", NAME)
            assert info.endpoint == f"{kubelet_node.root}/plugins/{NAME}/dra.sock"
            assert list(info.supported_versions) == ["v1.DRAPlugin", "v1beta1.DRAPlugin"]
            assert not runner.registration.registered.is_set()
            await registrar.call(NOTIFY, plugin_registered=True)
            assert runner.registration.registered.is_set()
    # The kubelet takes a removed socket for the end of the driver.
    assert list((kubelet_node.root / "plugins_registry").iterdir()) == []
    assert [path.name for path in (kubelet_node.root / "plugins" / NAME).iterdir()] == ["claims"]


async def test_a_registration_that_failed_is_told_in_the_log_and_to_the_kubelet(kubelet_node: Node, caplog) -> None:
    async with kubelet_node.running(Lamps()) as runner, Plugin(runner.options.registration_socket(NAME)) as registrar:
        with pytest.raises(grpc.aio.AioRpcError, match="registration failed: no such plugin"):
            await registrar.call(NOTIFY, plugin_registered=False, error="no such plugin")
        assert "the kubelet does not register driver lamps.example.com: no such plugin" in caplog.text
        # A kubelet that starts again asks again.
        assert (await registrar.call(GET_INFO)).name == NAME
        await registrar.call(NOTIFY, plugin_registered=True)
        assert runner.registration.registered.is_set()


@pytest.mark.parametrize(
    ("services", "advertised"),
    [
        (("v1beta1.DRAPlugin",), ["v1beta1.DRAPlugin"]),
        (("v1beta1.DRAPlugin", "v1.DRAPlugin"), ["v1.DRAPlugin", "v1beta1.DRAPlugin"]),
    ],
)
async def test_versions_can_be_left_out(kubelet_node: Node, services: tuple[str, ...], advertised: list[str]) -> None:
    async with kubelet_node.running(Lamps(), services=services) as runner:
        async with Plugin(runner.options.registration_socket(NAME)) as registrar:
            assert list((await registrar.call(GET_INFO)).supported_versions) == advertised
        async with Plugin(runner.options.dra_socket(NAME)) as plugin:
            assert await plugin.prepare(version="v1beta1") == {}
            if len(advertised) == 1:
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await plugin.prepare(version="v1")
                assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_sockets_are_for_their_owner_and_replace_what_a_crash_left(kubelet_node: Node) -> None:
    directory = kubelet_node.root / "plugins" / NAME
    directory.mkdir(parents=True)
    (directory / "dra.sock").touch()
    async with kubelet_node.running(Lamps()) as runner:
        for path in (runner.options.dra_socket(NAME), runner.options.registration_socket(NAME)):
            mode = path.stat().st_mode
            assert stat.S_ISSOCK(mode)
            assert stat.S_IMODE(mode) == 0o600


async def test_a_socket_that_somebody_removes_is_made_again(kubelet_node: Node) -> None:
    async with kubelet_node.running(Lamps(), socket_check=0.02) as runner:
        for path in (runner.options.registration_socket(NAME), runner.options.dra_socket(NAME)):
            path.unlink()
            while not path.exists():
                await asyncio.sleep(0.01)
        async with Plugin(runner.options.registration_socket(NAME)) as registrar:
            assert (await registrar.call(GET_INFO)).name == NAME
        claim = await kubelet_node.claim("lamp-0")
        async with Plugin(runner.options.dra_socket(NAME)) as plugin:
            assert (await plugin.prepare(claim))[claim["uid"]].error == ""


async def test_sockets_of_an_instance_that_was_killed_are_removed_by_the_next(kubelet_node: Node) -> None:
    registry, directory = kubelet_node.root / "plugins_registry", kubelet_node.root / "plugins" / NAME
    directory.mkdir(parents=True)
    dead = [registry / f"{NAME}-killed-reg.sock", directory / "dra-killed.sock"]
    for path in (*dead, registry / "other.example.com-reg.sock"):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
    async with kubelet_node.running(Lamps(), pod_uid="old"), kubelet_node.running(Lamps(), pod_uid="new"):
        names = {path.name for path in registry.iterdir()}
        assert names == {f"{NAME}-old-reg.sock", f"{NAME}-new-reg.sock", "other.example.com-reg.sock"}
        assert {path.name for path in directory.glob("*.sock")} == {"dra-old.sock", "dra-new.sock"}


async def test_a_rolling_update_has_two_sockets_and_the_old_ones_end_alone(kubelet_node: Node) -> None:
    registry = kubelet_node.root / "plugins_registry"
    async with kubelet_node.running(Lamps(), pod_uid="new") as new:
        async with kubelet_node.running(Lamps(), pod_uid="old"):
            assert sorted(path.name for path in registry.iterdir()) == [
                f"{NAME}-{uid}-reg.sock" for uid in ("new", "old")
            ]
        assert [path.name for path in registry.iterdir()] == [f"{NAME}-new-reg.sock"]
        await new.publisher.published()
        assert len(await kubelet_node.cluster.list("ResourceSlice")) == 1
        async with Plugin(new.options.dra_socket(NAME)) as plugin:
            assert await plugin.prepare() == {}


async def test_a_driver_that_replaces_one_at_the_same_socket_keeps_it(kubelet_node: Node) -> None:
    async with DriverRunner(Lamps(), kubelet_node.cluster.client, kubelet_node.options()):
        successor = DriverRunner(Lamps(), kubelet_node.cluster.client, kubelet_node.options())
        await successor.__aenter__()
    async with Plugin(successor.options.registration_socket(NAME)) as registrar:
        assert (await registrar.call(GET_INFO)).name == NAME
    await successor.__aexit__(None, None, None)


async def test_a_call_in_progress_is_finished_when_the_driver_stops(kubelet_node: Node) -> None:
    driver, begun, go_on = Lamps(), asyncio.Event(), asyncio.Event()

    async def wait(claim: object) -> None:
        begun.set()
        await go_on.wait()

    driver.on_prepare = wait
    runner = DriverRunner(driver, kubelet_node.cluster.client, kubelet_node.options(grace=10.0))
    await runner.__aenter__()
    claim = await kubelet_node.claim("lamp-0")
    async with Plugin(runner.options.dra_socket(NAME)) as plugin:
        call = asyncio.create_task(plugin.prepare(claim))
        await begun.wait()
        stopping = asyncio.create_task(runner.__aexit__(None, None, None))
        while runner.options.registration_socket(NAME).exists():
            await asyncio.sleep(0)
        go_on.set()
        assert (await call)[claim["uid"]].error == ""
        await stopping
    assert kubelet_node.records() == [claim["uid"]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"services": ("v1.DRAResourceHealth",)}, "a kubelet needs v1.DRAPlugin or v1beta1.DRAPlugin"),
        ({"services": ("1.0.0",)}, "services 1.0.0: known are v1.DRAPlugin"),
        (
            {"kubelet_root": Path("/nowhere")},
            "/nowhere/plugins_registry does not exist: is /nowhere the kubelet's root",
        ),
        ({"metadata_versions": ("v9",)}, "metadata versions v9: known are v1beta1, v1alpha1"),
    ],
)
async def test_options_that_cannot_work_are_refused(kubelet_node: Node, options: dict[str, object], said: str) -> None:
    with pytest.raises(DriverError, match=said):
        async with kubelet_node.running(Lamps(), **options):
            pass


async def test_a_driver_needs_a_name_that_the_api_takes(kubelet_node: Node) -> None:
    class Nameless(Lamps):
        name = "Not_A_Name"

    with pytest.raises(DriverError, match="must be a DNS subdomain"):
        DriverRunner(Nameless(), kubelet_node.cluster.client, kubelet_node.options())
