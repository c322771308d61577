"""Errors of GPUs: taints in slices and health in pods, and both gone when the GPU is healthy again."""

import msgspec
import pytest

from dray.drivers.gpu import gpu_events
from dray.drivers.gpu import health as health_module
from dray.drivers.gpu.device_files import DeviceFiles
from dray.drivers.gpu.discovery import discover
from dray.drivers.gpu.driver_files import find_driver_files
from dray.drivers.gpu.driver_programs import DriverPrograms
from dray.drivers.gpu.health import HealthMonitor
from dray.drivers.gpu.nvml_session import Nvml
from dray.drivers.gpu.options import GpuOptions

from .world import gpu_world

ECC = 2
TIMEOUT = 10


def taints(device):
    return [(each["key"], each.get("value", ""), each["effect"]) for each in device.get("taints", ())]


async def until(world, expected):
    """By device, those that have taints."""

    async def holds():
        return {name: taints(each) for name, each in (await world.devices()).items() if taints(each)} == expected

    await world.kubelet.eventually(holds, f"{expected}")


async def pod_health(world, name):
    pod = await world.kubelet.report_pod(name)
    (status,) = pod["status"]["containerStatuses"]
    (found,) = status["allocatedResourcesStatus"][0]["resources"]
    return found["health"], found.get("message", "")


async def test_an_error_taints_the_gpu_and_shows_in_the_pod(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 2)
    async with gpu_world(machine) as world, world.driver():
        await world.start("user", "gpu-1")
        machine.event(1, 79)
        await until(world, {"gpu-1": [("gpu.nvidia.com/xid", "79", "NoSchedule")]})

        async def shown():
            return await pod_health(world, "user") == ("Unhealthy", "XID 79")

        await world.kubelet.eventually(shown, "the pod shows it")
        # That of an application keeps nobody off.
        machine.event(0, 31)
        await until(
            world,
            {
                "gpu-0": [("gpu.nvidia.com/xid", "31", "None")],
                "gpu-1": [("gpu.nvidia.com/xid", "79", "NoSchedule")],
            },
        )


@pytest.fixture
def monitored(gpu_machine):
    """Makes a monitor of a machine, with a clock that stands still."""

    def make(machine, **settings):
        options = msgspec.convert(machine.settings(**settings), GpuOptions)
        files = find_driver_files(options.driver_root)
        nvml = Nvml(files.management_library)
        clock = [1000.0]
        monitor = HealthMonitor(nvml, options, lambda: clock[0])
        found = discover(nvml, options, DeviceFiles(DriverPrograms(files, machine.root), options))
        monitor.watch(found.gpus)
        return monitor, clock

    return make


def tainted(monitor, machine, device="gpu-0", number=0):
    found = monitor.taints(machine.gpus[number].uuid, device)
    return [(each.key.partition("/")[2], each.value, each.effect) for each in found]


def tainted_after(monitor, clock, machine, seconds=0):
    """The taints after so many seconds and a step."""
    clock[0] += seconds
    monitor.step()
    return tainted(monitor, machine)


def test_a_gpu_recovers_when_no_error_has_come_for_a_while(gpu_machine, monitored, monkeypatch):
    monkeypatch.setattr(health_module, "_WAIT", 0.02)
    machine = gpu_machine("p5.48xlarge", 1)
    monitor, clock = monitored(machine)
    machine.write("recovery_action", 0)
    machine.event(0, 0, kind=ECC)
    expected = [("xid", "48", "NoSchedule")]
    assert tainted_after(monitor, clock, machine) == expected
    assert tainted_after(monitor, clock, machine, 299) == expected
    # The driver asks for a reset, and memory waits to be replaced.
    machine.write("recovery_action", 1)
    assert tainted_after(monitor, clock, machine, 6) == expected
    machine.write("recovery_action", 0)
    machine.write("rows_pending")
    assert tainted_after(monitor, clock, machine, 6) == expected
    machine.remove("rows_pending")
    assert tainted_after(monitor, clock, machine, 6) == []


@pytest.mark.parametrize("xid", [79, 119, 120, 48])
def test_a_critical_error_stays_where_the_driver_does_not_tell_whether_the_gpu_recovered(
    gpu_machine, monitored, monkeypatch, xid
):
    monkeypatch.setattr(health_module, "_WAIT", 0.02)
    machine = gpu_machine("p5.48xlarge", 1)
    monitor, clock = monitored(machine)
    machine.event(0, xid)
    machine.event(0, 31)
    monitor.step()
    monitor.step()
    stays = [("xid", str(xid), "NoSchedule")]
    assert tainted(monitor, machine) == [*stays, ("xid", "31", "None")]
    # The error of the application is over, that of the GPU is not.
    assert tainted_after(monitor, clock, machine, 3600) == stays
    # An unknown error does not say that the GPU was away.
    machine.write("sick", 999)
    assert ("gpu-lost", "", "NoSchedule") in tainted_after(monitor, clock, machine, 6)
    machine.remove("sick")
    assert tainted_after(monitor, clock, machine, 6) == stays
    # Neither does a single error.
    machine.write("lost")
    tainted_after(monitor, clock, machine, 6)
    machine.remove("lost")
    assert tainted_after(monitor, clock, machine, 6) == stays
    machine.write("lost")
    tainted_after(monitor, clock, machine, 6)
    tainted_after(monitor, clock, machine, 6)
    machine.remove("lost")
    assert tainted_after(monitor, clock, machine, 6) == []


def test_an_error_that_the_gpu_has_contained_is_over_after_a_while(gpu_machine, monitored, monkeypatch):
    monkeypatch.setattr(health_module, "_WAIT", 0.02)
    machine = gpu_machine("p5.48xlarge", 1)
    monitor, clock = monitored(machine)
    machine.event(0, 94)
    assert tainted_after(monitor, clock, machine) == [("xid", "94", "NoSchedule")]
    assert tainted_after(monitor, clock, machine, 301) == []


def test_a_gpu_that_is_lost_and_comes_back(gpu_machine, monitored, monkeypatch):
    monkeypatch.setattr(health_module, "_WAIT", 0.02)
    machine = gpu_machine("p5.48xlarge", 2)
    monitor, clock = monitored(machine)
    machine.write("lost", number=1)
    monitor.step()
    assert tainted(monitor, machine, "gpu-1", 1) == [("gpu-lost", "", "NoSchedule")]
    assert monitor.lost == {machine.gpus[1].uuid}
    assert monitor.report("worker", machine.gpus[1].uuid, "gpu-1").health.name == "UNHEALTHY"
    assert tainted(monitor, machine) == []
    machine.remove("lost", number=1)
    clock[0] += 6
    monitor.step()
    assert tainted(monitor, machine, "gpu-1", 1) == []


def test_errors_of_a_partition_are_its_own(gpu_machine, monitored, monkeypatch):
    monkeypatch.setattr(health_module, "_WAIT", 0.02)
    machine = gpu_machine("p5.48xlarge", 1)
    machine.write("mig_mode", 1)
    machine.put_instance(0, 2, profile=9, start=4, size=4)
    monitor, _ = monitored(machine, DynamicMIG=True, ignoredXids="74")
    machine.event(0, 94, gi=2)
    machine.event(0, 74, gi=2)
    monitor.step()
    monitor.step()
    expected = {("xid", "94", "NoSchedule"), ("xid", "74", "None")}
    assert set(tainted(monitor, machine, "gpu-0-mig-3g40gb-9-4")) == expected
    assert set(tainted(monitor, machine, "gpu-0")) == expected
    assert tainted(monitor, machine, "gpu-0-mig-3g40gb-9-0") == []


def test_a_gpu_that_reports_nothing_is_told(gpu_machine, monitored):
    machine = gpu_machine("p5.48xlarge", 1)
    machine.write("unmonitored")
    monitor, _ = monitored(machine)
    monitor.step()
    assert tainted(monitor, machine) == [("unmonitored", "", "None")]
    monitor.is_informing = False
    assert tainted(monitor, machine) == []
    assert monitor.report("worker", machine.gpus[0].uuid, "gpu-0").health.name == "UNKNOWN"


async def test_a_lost_gpu_stays_published_with_its_taint(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 2)
    async with gpu_world(machine) as world, world.driver(checkSeconds=0.1):
        await until(world, {})
        machine.write("lost", number=0)
        await until(world, {"gpu-0": [("gpu.nvidia.com/gpu-lost", "", "NoSchedule")]})
        machine.remove("lost", number=0)
        await until(world, {})
        assert list(await world.devices()) == ["gpu-0", "gpu-1"]


@pytest.mark.parametrize("is_event", [False, True])
def test_a_library_that_does_not_wait_for_events_keeps_no_processor_busy(gpu_machine, monitored, monkeypatch, is_event):
    machine = gpu_machine("p5.48xlarge", 1)
    monitor, _ = monitored(machine)
    slept = []
    monkeypatch.setattr(gpu_events.time, "sleep", slept.append)
    if is_event:
        machine.event(0, 31)
    else:
        machine.fail("nvmlEventSetWait_v2", TIMEOUT)
    monitor.step()
    assert sum(slept) > 0


def test_many_events_of_a_lost_gpu_do_not_have_all_gpus_checked_each_time(gpu_machine, monitored, monkeypatch):
    monkeypatch.setattr(health_module, "_WAIT", 0.02)
    machine = gpu_machine("p5.48xlarge", 1)
    monitor, clock = monitored(machine)
    monitor.step()
    machine.write("sick", 15)
    machine.called()
    for _ in range(3):
        machine.event(0, 79)
        monitor.step()
    assert "nvmlDeviceGetHandleByUUID" not in machine.called()
    # The check is not put off for long.
    assert tainted_after(monitor, clock, machine, 0.6) == [("gpu-lost", "", "NoSchedule")]
