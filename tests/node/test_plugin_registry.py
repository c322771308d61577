"""Plugin registration: which sockets are registered, which are refused and why, what happens when they vanish."""

import socket
import tempfile
from pathlib import Path

import pytest

from dray.node.registration_sockets import registration_sockets

from .clusters import bound_pod, kubelet_on_cluster
from .scripted_driver import DRIVER, ScriptedDriver, scripted_driver


async def told(kubelet, driver):
    async def holds():
        return driver.statuses

    return (await kubelet.eventually(holds, "a registration status"))[-1]


async def test_a_driver_is_registered_and_told_so():
    async with kubelet_on_cluster() as (_, kubelet), scripted_driver(kubelet.root) as driver:
        await kubelet.registered(DRIVER)
        assert await told(kubelet, driver) == (True, "")

        async def noted():
            return any(each.registered for each in kubelet.registrations)

        await kubelet.eventually(noted, "the registration is noted")
        [state] = kubelet.registrations
        assert (state.driver, state.registered, state.error) == (DRIVER, True, "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"type_": "CSIPlugin"}, "no handler registered for plugin type 'CSIPlugin'"),
        ({"versions": ()}, r"none of the versions of the plugin \(none\) is known here: v1.DRAPlugin"),
        ({"versions": ("1.0.0",)}, r"versions of the plugin \(1.0.0\)"),
        ({"endpoint": "plugins/dra.sock"}, "is not an absolute path"),
        ({"name": "UPPER"}, "is not a lower-case DNS subdomain"),
    ],
)
async def test_a_plugin_that_cannot_be_served_is_told_why_again_and_again(options, said):
    async with kubelet_on_cluster() as (_, kubelet), scripted_driver(kubelet.root, **options) as driver:

        async def twice():
            return len(driver.statuses) > 1

        await kubelet.eventually(twice)
        registered, error = driver.statuses[-1]
        assert not registered
        with pytest.raises(AssertionError, match=said):
            raise AssertionError(error)
        assert kubelet.registrations[0].error == error
        assert kubelet.node.plugins.drivers == []


@pytest.mark.parametrize(
    ("versions", "spoken"),
    [
        (("v1beta1.DRAPlugin",), "v1beta1"),
        (("v1beta1.DRAPlugin", "v1.DRAPlugin"), "v1beta1"),
        (("v9.DRAPlugin", "v1.DRAPlugin", "v1beta1.DRAPlugin"), "v1"),
    ],
)
async def test_the_first_version_of_the_drivers_list_that_is_known_is_spoken(versions, spoken):
    async with kubelet_on_cluster() as (cluster, kubelet), scripted_driver(kubelet.root, versions=versions) as driver:
        driver.devices["c"] = [{"pool_name": "p", "device_name": "d", "share_id": "s"}]
        await kubelet.registered(DRIVER)
        await bound_pod(cluster, "p", "c")
        await kubelet.try_pod("p")
        assert driver.asked == [(spoken, "prepare", ["c"])]
        [info] = kubelet.node.manager.cache
        [(_, device)] = info.devices
        assert device.share_id == ("s" if spoken == "v1" else None)


async def test_a_plugin_without_an_endpoint_serves_on_its_registration_socket():
    async with kubelet_on_cluster() as (_, kubelet), scripted_driver(kubelet.root, endpoint=""):

        async def registered():
            return kubelet.node.plugins.endpoints(DRIVER)

        assert await kubelet.eventually(registered) == [str(kubelet.registry / f"{DRIVER}-reg.sock")]


async def test_of_two_instances_the_newest_that_is_connected_is_called():
    async with kubelet_on_cluster() as (cluster, kubelet), scripted_driver(kubelet.root, suffix="-old") as old:
        await kubelet.registered(DRIVER)
        async with scripted_driver(kubelet.root, suffix="-new") as new:
            await kubelet.registered(DRIVER, instances=2)
            await _connected(kubelet, 2)
            await bound_pod(cluster, "a", "one")
            await kubelet.try_pod("a")
            assert (len(old.asked), len(new.asked)) == (0, 1)
            # The process of the new one dies, its registration socket stays: the old one is called meanwhile.
            await new._servers[0].stop(grace=0)
            await _connected(kubelet, 1)
            await bound_pod(cluster, "b", "two")
            await kubelet.try_pod("b")
            assert (len(old.asked), len(new.asked)) == (1, 1)
        await kubelet.registered(DRIVER, instances=1)
        await kubelet.end_pod("a")
        assert [call[1] for call in old.asked] == ["prepare", "unprepare"]


async def _connected(kubelet, count):
    async def holds():
        return sum(each.connected for each in kubelet.node.plugins._instances[DRIVER]) == count

    await kubelet.eventually(holds, f"{count} connected")


async def test_the_same_endpoint_twice_is_refused():
    async with kubelet_on_cluster() as (_, kubelet), scripted_driver(kubelet.root) as first:
        await kubelet.registered(DRIVER)
        async with scripted_driver(kubelet.root, suffix="-2", endpoint=str(first.socket)) as second:
            registered, error = await told(kubelet, second)
            assert not registered
            assert f"endpoint {first.socket} already registered" in error
        await kubelet.registered(DRIVER)


async def test_a_driver_is_deregistered_when_its_socket_vanishes_and_comes_back_with_it():
    async with kubelet_on_cluster() as (_, kubelet), scripted_driver(kubelet.root) as driver:
        await kubelet.registered(DRIVER)
        driver.registration_socket.rename(kubelet.root / "aside")
        await kubelet.deregistered(DRIVER)
        (kubelet.root / "aside").rename(driver.registration_socket)
        await kubelet.registered(DRIVER)

        async def told_again():
            return driver.statuses == [(True, ""), (True, "")]

        await kubelet.eventually(told_again, "a second registration status")


async def test_a_driver_that_restarts_on_the_same_paths_is_registered_anew():
    async with kubelet_on_cluster() as (cluster, kubelet):
        old = await ScriptedDriver(kubelet.root).start()
        await kubelet.registered(DRIVER)
        for server in old._servers:
            await server.stop(grace=0)
        async with scripted_driver(kubelet.root) as new:
            await told(kubelet, new)
            await kubelet.registered(DRIVER)
            await bound_pod(cluster, "p", "c")
            await kubelet.start_pod("p")
            assert new.asked


async def test_a_driver_that_refuses_to_be_registered_is_not_called():
    async with kubelet_on_cluster() as (_, kubelet):
        driver = ScriptedDriver(kubelet.root)
        driver.statuses = _Refusing()
        await driver.start()
        try:

            async def failed():
                return [each for each in kubelet.registrations if "refused its registration status" in each.error]

            await kubelet.eventually(failed)
            assert kubelet.node.plugins.drivers == []
        finally:
            await driver.stop()


class _Refusing(list):
    def append(self, status):
        raise RuntimeError("not now")


def bound(path):
    """A socket that nobody answers on; its file stays when it is closed."""
    path.parent.mkdir(exist_ok=True)
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


async def test_a_socket_that_stays_silent_holds_up_nobody_else():
    async with kubelet_on_cluster() as (_, kubelet):
        with bound(kubelet.registry / "a-silent.sock"):
            (kubelet.registry / ".hidden.sock").touch()
            (kubelet.registry / "file").touch()
            async with scripted_driver(kubelet.root):
                await kubelet.registered(DRIVER)


def test_sockets_are_found_in_folders_and_known_by_their_file():
    with tempfile.TemporaryDirectory(prefix="registry-") as directory:
        root = Path(directory)
        for place in ("a.sock", "sub/b.sock", ".hidden/c.sock", ".d.sock"):
            bound(root / place).close()
        found = registration_sockets(root)
        assert {path.name for path in found} == {"a.sock", "b.sock"}
        (root / "a.sock").chmod(0o600)
        assert registration_sockets(root) == found
        (root / "a.sock").unlink()
        bound(root / "a.sock").close()
        assert registration_sockets(root) != found
        (root / "sub/b.sock").unlink()
        assert [path.name for path in registration_sockets(root)] == ["a.sock"]
