"""GPUs that fail while claims use them: claims are released, devices are tainted, and all is well afterwards."""

import asyncio
import os
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from dray.drivers.gpu.options import GpuOptions
from dray.node.errors import PrepareError
from dray.testing.api_endpoint import ApiEndpoint

from .machines import compile_library
from .sickness import CLAIMS, PARTITION, PATIENCE, QUICK, SickWorld, sick_world, taints_of, tracebacks
from .world import GPU, gpu_world, time_slicing

DRAY = Path(sys.executable).with_name("dray")
MAPS = Path("/proc/self/maps")
UNKNOWN, IS_LOST, IN_USE = 999, 15, 19
LOST = ("gpu-lost", "", "NoSchedule")
XID_79 = ("xid", "79", "NoSchedule")


def pending(what):
    return "cleanup-pending", what, "NoSchedule"


@pytest.fixture(autouse=True)
def no_traceback(caplog):
    yield
    assert not tracebacks(caplog)


@pytest.mark.parametrize("kind", CLAIMS)
@pytest.mark.parametrize(("sickness", "error"), [("sick", UNKNOWN), ("deaf", IS_LOST)])
async def test_a_claim_on_a_gpu_that_falls_off_is_released(gpu_machine, kind, sickness, error):
    async with sick_world(gpu_machine, kind) as trial:
        uid = await trial.start("user")
        trial.machine.write(sickness, error)
        await trial.until_tainted("while in use", LOST)
        await trial.end("user")
        assert not (trial.world.directory / "claims" / f"{uid}.json").exists()
        assert trial.machine.daemons() == []
        await trial.until_tainted("after its end", LOST)
        if kind == "time-slices":
            await trial.until_tainted("after its end", LOST, pending("time-slice"))
        trial.machine.remove(sickness)
        await trial.until_well("back on the bus")


async def test_mig_mode_that_another_client_holds_does_not_hold_the_claim(gpu_machine):
    async with sick_world(gpu_machine, "partition") as trial:
        await trial.start("user")
        trial.machine.write("mig_busy")
        await trial.end("user")
        assert trial.machine.instances() == []
        await trial.until_tainted("busy", pending("mig-mode"), device="gpu-0")
        # Partitions can still be made: the mode is on.
        assert await trial.taints() == {("cleanup-pending", "mig-mode", "None")}
        await trial.start("another")
        await trial.end("another")

        async def told():
            events = await trial.world.cluster.list("Event")
            return [event for event in events if event["reason"] == "CleanUpPending"]

        await trial.world.kubelet.eventually(told, "an event of the claim")
        trial.machine.remove("mig_busy")
        await trial.until_well("free again")


async def test_time_slices_are_reset_when_nvidia_smi_works_again(gpu_machine):
    async with sick_world(gpu_machine, "time-slices") as trial:
        await trial.start("user")
        # What it writes need not be text.
        (trial.machine.state / "fail/nvidia-smi").write_bytes(b"Unknown Error \xff")
        await trial.end("user")
        await trial.until_tainted("not reset", pending("time-slice"))
        with pytest.raises(
            PrepareError, match=r"not cleaned up after claim default/user .* yet: .* status 255: Unknown"
        ):
            await trial.start("next")
        await trial.end("next")
        trial.machine.mend()
        await trial.until_well("reset")
        assert trial.machine.time_slice(trial.machine.gpus[0].uuid) == 0


async def test_a_clean_up_goes_on_after_a_restart_of_the_driver(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    async with gpu_world(machine) as world:
        async with world.driver(**QUICK):
            trial = SickWorld(world, "gpu-0", [time_slicing("Long")])
            await trial.start("user")
            machine.fail("nvidia-smi", "Unknown Error")
            await trial.end("user")
        async with world.driver(**QUICK):
            await trial.until_tainted("after the restart", pending("time-slice"))
            machine.mend()
            await trial.until_well("after the restart")


async def test_clean_ups_of_another_boot_are_forgotten(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    boot = machine.state / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("first")
    async with gpu_world(machine) as world:
        async with world.driver(**QUICK):
            trial = SickWorld(world, "gpu-0", [time_slicing("Long")])
            await trial.start("user")
            machine.fail("nvidia-smi", "Unknown Error")
            await trial.end("user")
        boot.write_text("second")
        (machine.state / "slices" / machine.gpus[0].uuid).unlink()
        async with world.driver(**QUICK):
            await trial.until_well("started anew")


async def test_a_driver_that_is_reloaded_is_opened_again(gpu_machine):
    async with sick_world(gpu_machine, "plain") as trial:
        trial.machine.event(0, 79)
        await trial.until_tainted("before", ("xid", "79", "NoSchedule"))
        (trial.machine.state / "driver").rename(trial.machine.state / "unloaded")
        await trial.until_tainted("unloaded", ("nvml-error", "9", "NoSchedule"))
        with pytest.raises(PrepareError, match=r"(?i)not loaded"):
            await trial.start("early")
        await trial.end("early")
        trial.machine.reload_driver()
        (trial.machine.state / "unloaded").rename(trial.machine.state / "driver")
        # The GPU was initialized with it, so the error is over too.
        await trial.until_well("loaded again")
        trial.machine.event(0, 48)
        await trial.until_tainted("events are followed again", ("xid", "48", "NoSchedule"))


@pytest.mark.parametrize("error", [1, 9, 18])
async def test_a_critical_error_outlasts_a_session_that_is_lost(gpu_machine, error):
    async with sick_world(gpu_machine, "plain") as trial:
        trial.machine.event(0, 79)
        await trial.until_tainted("before", XID_79)
        trial.machine.called()
        trial.machine.end_sessions(error)

        async def is_opened_again():
            seen.update(trial.machine.called())
            return {"nvmlInitWithFlags", "nvmlDeviceGetPerformanceState"} <= seen

        for _ in range(2):
            seen = set()
            await trial.world.kubelet.eventually(is_opened_again, "another session", PATIENCE)
            trial.machine.end_sessions(error)

        async def is_back():
            return await trial.taints() == {XID_79}

        await trial.world.kubelet.eventually(is_back, "the error is still known", PATIENCE)
        assert await trial.taints() == {XID_79}
        trial.machine.reload_driver()
        await trial.until_well("loaded again")


@pytest.mark.parametrize("error", [1, 9, 15, 18])
async def test_a_critical_error_outlasts_a_single_error_of_a_call(gpu_machine, error):
    async with sick_world(gpu_machine, "plain", checkSeconds=0.5) as trial:
        trial.machine.event(0, 79)
        await trial.until_tainted("before", XID_79)
        trial.machine.fail("nvmlDeviceGetPerformanceState", error)
        trial.machine.called()

        async def is_called():
            return "nvmlDeviceGetPerformanceState" in trial.machine.called()

        await trial.world.kubelet.eventually(is_called, "a check", PATIENCE)
        trial.machine.mend()
        for _ in range(2):
            trial.machine.called()
            await trial.world.kubelet.eventually(is_called, "another check", PATIENCE)

        async def is_back():
            return await trial.taints() == {XID_79}

        await trial.world.kubelet.eventually(is_back, "the error is still known", PATIENCE)


KNOWN = {
    "nvmlDeviceGetMemoryInfo": [2, 3, 4, 13],
    "nvmlDeviceGetMigMode": [2, 3, 4, 13],
    "nvmlDeviceGetName": [3],
    "nvmlDeviceGetPerformanceState": [3, 4],
    "nvmlDeviceGetGpuInstanceProfileInfoV": [2, 3, 4, 13],
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": [2, 3, 4],
    "nvmlDeviceGetMaxMigDeviceCount": [3],
    "nvmlDeviceGetAttributes_v2": [2, 3, 4],
}


@pytest.mark.parametrize(("function", "error"), [(name, code) for name, codes in KNOWN.items() for code in codes])
async def test_a_gpu_keeps_the_facts_that_it_does_not_tell_any_more(gpu_machine, function, error):
    machine = gpu_machine("p5.48xlarge", 2, mig=(0,))
    machine.put_instance(0, 7, profile=9, start=4, size=4)
    async with gpu_world(machine) as world, world.driver(**QUICK):
        trial = SickWorld(world, PARTITION, [])

        async def is_monitored():
            devices = await world.devices()
            return devices if {PARTITION, "gpu-1"} <= devices.keys() and not await trial.taints() else None

        before = await world.kubelet.eventually(is_monitored, "devices", PATIENCE)
        machine.called()
        await world.kubelet.eventually(lambda: _is_called(machine, function), "a first answer", PATIENCE)
        machine.fail(function, error, number=0)
        await trial.until_tainted("not told any more", ("nvml-error", str(error), "NoSchedule"))
        machine.called()
        await world.kubelet.eventually(lambda: _is_called(machine, "nvmlDeviceGetBrand"), "a discovery", PATIENCE)
        devices = await world.devices()
        assert devices.keys() == before.keys()
        assert devices[PARTITION]["capacity"] == before[PARTITION]["capacity"]
        assert devices[PARTITION]["attributes"] == before[PARTITION]["attributes"]
        assert not devices["gpu-1"].get("taints")
        machine.mend()

        async def is_well():
            return await world.devices() == before

        await world.kubelet.eventually(is_well, "told again", PATIENCE)


async def _is_called(machine, function):
    return function in machine.called()


async def test_a_fact_that_is_not_told_any_more_taints_the_gpu_without_health_checks(gpu_machine):
    async with sick_world(gpu_machine, "plain", NVMLDeviceHealthCheck=False) as trial:
        before = await _published(trial.world)
        trial.machine.fail("nvmlDeviceGetMemoryInfo", 3)
        await trial.until_tainted("no memory", ("nvml-error", "3", "NoSchedule"))
        assert (await trial.world.devices())["gpu-0"]["capacity"] == before["gpu-0"]["capacity"]
        trial.machine.mend()
        await trial.until_well("told again")


@pytest.mark.parametrize("function", ["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID"])
async def test_a_gpu_that_cannot_be_opened_any_more_stays_published(gpu_machine, function):
    async with sick_world(gpu_machine, "plain", count=2, NVMLDeviceHealthCheck=False) as trial:
        before = await _published(trial.world)
        trial.machine.fail(function, UNKNOWN, number=1)
        await trial.until_tainted("not opened", LOST, device="gpu-1")
        devices = await trial.world.devices()
        assert devices.keys() == before.keys()
        assert not devices["gpu-0"].get("taints")
        trial.machine.mend()
        await trial.until_well("opened again")


def _state(trial, number, **facts):
    """Has a GPU state other facts from now on, as a card that was put in its place does."""
    lines = dict(line.split(" ", 1) for line in trial.machine.read("facts", number).splitlines())
    trial.machine.write("facts", "".join(f"{key} {value}\n" for key, value in {**lines, **facts}.items()), number)


async def test_a_card_that_replaces_a_lost_one_is_published_under_the_name_of_the_lost_one(gpu_machine):
    async with sick_world(gpu_machine, "plain", count=2) as trial:
        trial.machine.write("lost")
        await trial.until_tainted("lost", LOST)
        _state(trial, 0, uuid="GPU-new")
        trial.machine.remove("lost")
        trial.machine.reload_driver()
        await _until_published(trial, "gpu-0", "GPU-new")


async def test_a_gpu_that_gets_the_minor_number_of_a_lost_one_is_published(gpu_machine):
    async with sick_world(gpu_machine, "plain", count=2) as trial:
        first, second = (gpu.uuid for gpu in trial.machine.gpus)
        trial.machine.write("lost")
        await trial.until_tainted("lost", LOST)
        _state(trial, 1, minor=0)
        await _until_published(trial, "gpu-0", second)
        _state(trial, 1, minor=1)
        trial.machine.remove("lost")
        await _until_published(trial, "gpu-0", first)
        await trial.until_well("as before")


async def _until_published(trial, name, uuid):
    """With this UUID and without taints."""

    async def holds():
        device = (await trial.world.devices()).get(name)
        return device is not None and (device["attributes"]["uuid"], taints_of(device)) == ({"string": uuid}, set())

    await trial.world.kubelet.eventually(holds, f"{name} is {uuid}", PATIENCE)


async def test_another_version_of_the_driver_need_not_support_what_the_last_one_did(gpu_machine):
    async with sick_world(gpu_machine, "plain") as trial:
        await _published(trial.world)
        trial.machine.fail("nvmlDeviceGetAddressingMode", 13)
        await trial.until_tainted("not told any more", ("nvml-error", "13", "NoSchedule"))
        trial.machine.reload_driver()
        await trial.until_well("loaded again")
        assert "addressingMode" not in (await trial.world.devices())["gpu-0"]["attributes"]


@pytest.mark.parametrize("kind", ["plain", "partition"])
@pytest.mark.parametrize("error", [1, UNKNOWN, IS_LOST])
async def test_a_session_that_fails_in_whatever_way_is_opened_again(gpu_machine, kind, error):
    async with sick_world(gpu_machine, kind, count=2) as trial:
        await trial.start("user")
        trial.machine.called()
        trial.machine.end_sessions(error)

        async def is_opened_again():
            return "nvmlInitWithFlags" in trial.machine.called()

        # A session that is opened again before the next check leaves no taint.
        await trial.world.kubelet.eventually(is_opened_again, "another session", PATIENCE)
        await trial.end("user")
        await trial.until_well("opened again")


async def test_a_session_is_not_closed_while_claims_have_partitions_on_gpus_that_work(gpu_machine):
    async with sick_world(gpu_machine, "partition", count=2) as trial:
        await trial.start("user")
        trial.machine.write("sick", UNKNOWN, number=1)
        await trial.until_tainted("sick", LOST, device="gpu-1")
        trial.machine.called()

        async def checked_often():
            called.update(trial.machine.called())
            return "nvmlDeviceGetPerformanceState" in called

        for _ in range(20):
            called = set()
            await trial.world.kubelet.eventually(checked_often, "a check", 60)
            assert "nvmlInitWithFlags" not in called
        await trial.end("user")

        async def is_renewed():
            return "nvmlInitWithFlags" in trial.machine.called()

        await trial.world.kubelet.eventually(is_renewed, "another session", 60)


async def test_a_gpu_that_is_withdrawn_for_a_while_keeps_its_errors(gpu_machine):
    async with sick_world(gpu_machine, "plain") as trial:
        trial.machine.event(0, 79)
        await trial.until_tainted("before", ("xid", "79", "NoSchedule"))
        device_file = trial.machine.root / "host/dev/nvidia0"
        device_file.unlink()
        device_file.write_text("")

        async def is_withdrawn():
            return await trial.taints() is None

        await trial.world.kubelet.eventually(is_withdrawn, "the GPU is withdrawn", 60)
        device_file.unlink()
        device_file.symlink_to("/dev/null")

        async def is_back():
            return await trial.taints()

        assert await trial.world.kubelet.eventually(is_back, "the GPU is back", 60) == {("xid", "79", "NoSchedule")}


async def test_claims_are_released_by_a_driver_that_starts_without_nvml(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    async with gpu_world(machine) as world:
        async with world.driver(**QUICK):
            trial = SickWorld(world, "gpu-0", CLAIMS["mps"][1])
            await trial.start("user")
        (machine.state / "driver").rename(machine.state / "unloaded")
        async with world.driver(**QUICK):
            await trial.end("user")
            assert machine.daemons() == []
            assert await world.devices() == {}
            (machine.state / "unloaded").rename(machine.state / "driver")
            await trial.until_well("loaded")


async def test_half_a_partition_goes_although_a_later_claim_wants_its_place(gpu_machine):
    async with sick_world(gpu_machine, "partition") as trial:
        trial.machine.fail("nvmlGpuInstanceCreateComputeInstance", UNKNOWN)
        with pytest.raises(PrepareError, match="create a compute instance"):
            await trial.start("half")
        trial.machine.mend()
        with pytest.raises(PrepareError, match="Insufficient Resources"):
            await trial.world.start("large", "gpu-0-mig-7g80gb-0-0")
        await trial.end("half")
        await trial.world.kubelet.start_pod("large", within=PATIENCE)
        assert trial.machine.instances() == [(0, 0)]
        await trial.end("large")
        await trial.until_well("both ended")


async def test_a_foreign_partition_in_use_taints_what_overlaps(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1, mig=(0,))
    machine.put_instance(0, 7, profile=9, start=4, size=4)
    machine.fail("nvmlGpuInstanceDestroy", IN_USE)
    async with gpu_world(machine) as world, world.driver(DynamicMIG=True, **QUICK):
        trial = SickWorld(world, "gpu-0", [])
        await trial.until_tainted("at the start", pending("partition"))
        expected = {"gpu-0", "gpu-0-mig-7g80gb-0-0", PARTITION, "gpu-0-mig-1g10gb-19-4"}
        tainted = {name for name in await world.devices() if await trial.taints(name)}
        assert expected <= tainted
        assert "gpu-0-mig-3g40gb-9-0" not in tainted
        machine.mend()
        await trial.until_well("not in use any more")


async def test_partitions_that_cannot_be_listed_at_the_start_are_looked_for_again(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1, mig=(0,))
    machine.put_instance(0, 7, profile=9, start=4, size=4)
    machine.fail("nvmlDeviceGetGpuInstances", UNKNOWN)
    async with gpu_world(machine) as world, world.driver(DynamicMIG=True, **QUICK):
        trial = SickWorld(world, "gpu-0", [])
        for device in ("gpu-0", "gpu-0-mig-3g40gb-9-0"):
            await trial.until_tainted("at the start", pending("partition"), device=device)
        machine.mend()
        await trial.until_well("listed")


async def test_a_vgpu_is_offered_whole_alone(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 2)
    machine.write("virtualization", 2)
    async with gpu_world(machine) as world, world.driver(DynamicMIG=True):
        devices = await _published(world)
        assert [device for device in devices if device.startswith("gpu-0")] == ["gpu-0"]
        assert "gpu-1-mig-1g10gb-19-0" in devices


async def test_a_gpu_is_offered_whole_to_those_who_may_not_use_mig(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    machine.fail("nvmlDeviceGetGpuInstanceProfileInfoV", 4)
    async with gpu_world(machine) as world, world.driver():
        assert list(await _published(world)) == ["gpu-0"]


async def _published(world):
    return await world.kubelet.eventually(world.devices, "devices")


HANGING = ["nvmlDeviceSetComputeMode", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetMemoryInfo", "nvmlEventSetWait_v2"]


@pytest.mark.parametrize("function", HANGING)
async def test_a_call_that_hangs_holds_up_nothing_else(gpu_machine, function):
    machine = gpu_machine("p5.48xlarge", 2)
    async with gpu_world(machine) as world:
        async with world.driver(**QUICK | {"nvmlSeconds": 0.5}):
            stuck, other = SickWorld(world, "gpu-0", CLAIMS["mps"][1]), SickWorld(world, "gpu-1", CLAIMS["mps"][1])
            await stuck.start("stuck")
            await other.start("other")
            # What is called for no GPU hangs for all.
            machine.hang(function, 120, number=None if "Event" in function else 0)
            began = time.monotonic()
            await asyncio.gather(stuck.end("stuck"), other.end("other"))
            if function != "nvmlDeviceSetComputeMode":
                await stuck.until_tainted("hanging")
            ending = time.monotonic()
        # Long before the calls return by themselves.
        assert ending - began < 40
        assert time.monotonic() - ending < 40
        machine.mend()
        async with world.driver(**QUICK):
            await stuck.until_well("mended")


async def test_many_gpus_that_hang_do_not_hold_up_one_that_works(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 8)
    async with gpu_world(machine) as world:
        async with world.driver(**QUICK | {"nvmlSeconds": 0.5}):
            trials = [SickWorld(world, f"gpu-{number}", CLAIMS["mps"][1]) for number in range(8)]
            await asyncio.gather(*(trial.start(f"pod-{number}") for number, trial in enumerate(trials)))
            machine.hang("nvmlDeviceSetComputeMode", 60)
            await asyncio.gather(*(trial.end(f"pod-{number}") for number, trial in enumerate(trials[1:], 1)))
            assert machine.daemons()
            machine.hang("nvmlDeviceSetComputeMode", 60, number=1)
            await trials[0].end("pod-0")

            async def is_clean():
                return machine.read("compute_mode", 0) == "0"

            # On a busy machine a call may take longer than half a second; then the clean-up goes on in the background.
            await world.kubelet.eventually(is_clean, "the GPU that works is clean", 30)
            assert machine.read("compute_mode", 1) == "3"
        machine.mend()


async def test_a_program_that_hangs_holds_up_no_other_gpu(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 2)
    async with gpu_world(machine) as world, world.driver(**QUICK | {"nvmlSeconds": 0.5}):
        sliced, plain = SickWorld(world, "gpu-0", CLAIMS["time-slices"][1]), SickWorld(world, "gpu-1", [])
        await sliced.start("sliced")
        await plain.start("plain")
        machine.hang("nvidia-smi", 4)
        began = time.monotonic()
        await asyncio.gather(sliced.end("sliced"), plain.end("plain"))
        assert time.monotonic() - began < 4
        await sliced.until_tainted("hanging", pending("time-slice"))
        machine.mend()
        await sliced.until_well("mended")


@asynccontextmanager
async def driver_process(machine, **settings):
    """A driver in a process of its own."""
    async with gpu_world(machine) as world, ApiEndpoint(world.cluster.application) as endpoint:
        kubelet = world.kubelet
        kubelet.kubeconfig = endpoint.write_kubeconfig(kubelet.root / "kubeconfig")
        chosen = [f"--set={key}={value}" for key, value in machine.settings(**settings).items()]
        places = ["--kubelet-root", kubelet.root, "--cdi-dir", kubelet.cdi]
        process = kubelet.start_driver([DRAY, "driver", "gpu", *places, *chosen], {"NVML_STAND_IN": str(machine.state)})
        await kubelet.registered(GPU, within=60)
        yield SickWorld(world, "gpu-0", CLAIMS["mps"][1]), process


async def test_a_process_ends_although_a_call_hangs(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    async with driver_process(machine, nvmlSeconds=1) as (trial, process):
        machine.hang("nvmlDeviceGetMemoryInfo", 60)
        machine.hang("nvmlEventSetWait_v2", 60)
        machine.called()

        async def hangs():
            return "nvmlEventSetWait_v2" in machine.called()

        await trial.world.kubelet.eventually(hangs, "a call that hangs", 60)
        assert await asyncio.to_thread(process.stop, 30) == 0
        assert "Traceback" not in process.output()


SICKNESSES = {
    "unknown": lambda machine: machine.write("sick", UNKNOWN),
    "cached": lambda machine: machine.write("deaf", IS_LOST),
    "session": lambda machine: (machine.state / "driver").rename(machine.state / "unloaded"),
    "hanging": lambda machine: machine.hang("nvmlDeviceGetMemoryInfo", 60),
    "discovery": lambda machine: machine.fail("nvmlDeviceGetName", UNKNOWN),
    "not supported": lambda machine: machine.fail("nvmlDeviceGetMigMode", 3),
    "no partitions": lambda machine: machine.fail("nvmlDeviceGetGpuInstanceProfileInfoV", 4),
}


@pytest.mark.skipif(not os.environ.get("DRAY_NVML_ERRORS"), reason="takes a minute; set DRAY_NVML_ERRORS=all")
@pytest.mark.time_limit(180)
@pytest.mark.parametrize("sickness", SICKNESSES)
async def test_the_defaults_taint_and_clear_within_35_seconds(gpu_machine, sickness):
    machine = gpu_machine("p5.48xlarge", 1)
    async with driver_process(machine) as (trial, process):
        await trial.world.kubelet.eventually(trial.world.devices, "devices")
        await trial.start("user")
        began = time.monotonic()
        SICKNESSES[sickness](machine)
        await trial.until_tainted(sickness, within=35)
        tainted = time.monotonic()
        await trial.end("user")
        assert time.monotonic() - tainted < 10
        _heal(machine)
        healed = time.monotonic()
        await trial.until_well(sickness, within=35)
        print(f"{sickness}: tainted after {tainted - began:.1f} s, back after {time.monotonic() - healed:.1f} s")
        assert "Traceback" not in process.output()


def _heal(machine):
    machine.mend()
    for name in ("sick", "deaf"):
        (machine.state / "gpus/0" / name).unlink(missing_ok=True)
    if (machine.state / "unloaded").exists():
        machine.reload_driver()
        (machine.state / "unloaded").rename(machine.state / "driver")


async def test_nvml_is_open_only_during_an_operation_where_nothing_needs_it_longer(gpu_machine):
    async with sick_world(gpu_machine, "mps", NVMLDeviceHealthCheck=False, discoverySeconds=600) as trial:
        await trial.start("user")
        await trial.end("user")
        assert (trial.machine.state / "opened").read_text() == "0"


async def test_nvml_is_closed_while_an_administrator_asks_for_it(gpu_machine):
    async with sick_world(gpu_machine, "mps") as trial:
        await trial.start("user")
        trial.machine.event(0, 119)
        await trial.until_tainted("before", ("xid", "119", "NoSchedule"))
        (trial.world.directory / "release-nvml").touch()
        await trial.until_tainted("released", ("nvml-error", "1", "NoSchedule"))
        assert (trial.machine.state / "opened").read_text() == "0"
        await trial.end("user")
        (trial.world.directory / "release-nvml").unlink()
        await trial.until_well("open again")


async def test_a_library_without_functions_for_events_offers_unmonitored_gpus(gpu_machine):
    async with sick_world(gpu_machine, "plain") as trial:
        for function in ("nvmlEventSetCreate", "nvmlEventSetWait_v2", "nvmlDeviceRegisterEvents"):
            trial.machine.fail(function, 13)
        await trial.until_tainted("no events", ("unmonitored", "", "None"))
        await trial.start("user")
        await trial.end("user")
        trial.machine.mend()
        await trial.until_well("events again")


def test_the_defaults_find_and_forget_a_sick_gpu_within_35_seconds():
    options = msgspec.convert({}, GpuOptions)
    # The next check, all calls of one GPU, and a few seconds to write slices.
    assert options.check_seconds + 2 * options.nvml_seconds + 5 < 35
    assert options.discovery_seconds + 2 * options.nvml_seconds + 5 < 35
    # The longest pause between two attempts to clean up.
    assert 3 * options.check_seconds + 4 * options.nvml_seconds < 36


async def test_another_version_of_the_library_is_loaded_when_the_driver_was_upgraded(gpu_machine, tmp_path):
    async with sick_world(gpu_machine, "plain") as trial:
        libraries = trial.machine.driver_root / "usr/lib/x86_64-linux-gnu"
        (tmp_path / "compiled").mkdir()
        upgraded = compile_library(tmp_path / "compiled").rename(libraries / "libnvidia-ml.so.590.10.01")
        (libraries / "libcuda.so.590.10.01").write_text("")
        (libraries / "libnvidia-ml.so.1").unlink()
        (libraries / "libnvidia-ml.so.1").symlink_to(upgraded.name)
        (trial.machine.state / "driver").write_text("590.10.01 13010")
        trial.machine.reload_driver()

        async def is_upgraded():
            found = (await trial.world.devices()).get("gpu-0", {}).get("attributes", {})
            return found.get("driverVersion") == {"version": "590.10.1"} and str(upgraded) in MAPS.read_text()

        await trial.world.kubelet.eventually(is_upgraded, "the new version")
        await trial.start("user")
        await trial.end("user")
        await trial.until_well("upgraded")
