"""The driver behind a kubelet: the calls and commands that prepare and unprepare a claim, in their order."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dray.driver.checkpoint import Checkpoint
from dray.drivers.gpu.options import GpuOptions
from dray.node.cdi import resolve
from dray.node.errors import PrepareError, UnprepareError
from dray.testing.cluster import kind_of
from dray.testing.kubelet.faults import deadline

from .sickness import QUICK
from .world import config, gpu_world, mps, time_slicing

DRIVER = "580.105.08"
DEFAULT, EXCLUSIVE = 0, 3


async def test_a_whole_gpu_needs_nothing_but_its_files(gpu_machine):
    machine = gpu_machine("p5.48xlarge")
    async with gpu_world(machine) as world, world.driver():
        uid = await world.start("plain", "gpu-3")
        edits = world.edits(uid)["gpu-3"]
        assert edits["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
        nodes = ["nvidia3", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"]
        assert [each["path"] for each in edits["deviceNodes"]] == [f"/dev/{name}" for name in nodes]
        assert edits["deviceNodes"][0]["hostPath"] == str(machine.root / "host/dev/nvidia3")
        mounts = {each["containerPath"]: each["hostPath"] for each in edits["mounts"]}
        libraries = machine.driver_root / "usr/lib/x86_64-linux-gnu"
        inside = "/usr/lib/x86_64-linux-gnu"
        assert mounts[f"{inside}/libcuda.so.{DRIVER}"] == str(libraries / f"libcuda.so.{DRIVER}")
        assert mounts["/usr/bin/nvidia-smi"] == str(machine.driver_root / "usr/bin/nvidia-smi")
        # Without the toolkit nobody makes the links.
        for directory in (inside, "/usr/lib64"):
            assert mounts[f"{directory}/libcuda.so.1"] == str(libraries / f"libcuda.so.{DRIVER}")
        assert "hooks" not in edits
        assert machine.calls() == []
        claim = await world.cluster.get("ResourceClaim", "plain")
        assert claim["status"]["devices"][0]["data"] == {"uuid": machine.gpus[3].uuid}
        await world.kubelet.end_pod("plain")
        assert (machine.calls(), world.leftovers()) == ([], [])


@pytest.mark.parametrize(("program", "words"), [("nvidia-cdi-hook", []), ("nvidia-ctk", ["hook"])])
async def test_hooks_of_the_toolkit_where_it_is_installed(gpu_machine, program, words):
    machine = gpu_machine("p5.48xlarge", 1)
    machine.write_program(program)
    async with gpu_world(machine) as world, world.driver():
        edits = world.edits(await world.start("hooked", "gpu-0"))["gpu-0"]
        links, cache = edits["hooks"]
        inside = "/usr/lib/x86_64-linux-gnu"
        assert {links["hookName"], cache["hookName"]} == {"createContainer"}
        assert links["args"][: len(words) + 2] == [program, *words, "create-symlinks"]
        assert f"libcuda.so.{DRIVER}::{inside}/libcuda.so.1" in links["args"]
        assert cache["args"] == [program, *words, "update-ldcache", "--folder", inside]
        assert f"{inside}/libcuda.so.1" not in [each["containerPath"] for each in edits["mounts"]]


async def test_what_all_devices_of_a_claim_need_is_in_its_cdi_file_once(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 3)
    machine.write_program("nvidia-cdi-hook")
    async with gpu_world(machine) as world, world.driver():
        content = world.cdi(await world.start("several", "gpu-0", "gpu-1", "gpu-2"))
        assert [list(device["containerEdits"]) for device in content["devices"]] == [["deviceNodes"]] * 3
        assert len(content["containerEdits"]["hooks"]) == 2
        merged = resolve([f"{content['kind']}={each['name']}" for each in content["devices"]], [world.kubelet.cdi])
        assert len(merged.hooks) == 2
        assert len(merged.device_nodes) == 3 + 4


async def test_programs_do_not_load_the_libc_of_another_root(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 2)
    # Of another version than the loader of this system: nothing could run with it.
    (machine.driver_root / "usr/lib/x86_64-linux-gnu/libc.so.6").write_text("not for this loader")
    async with gpu_world(machine) as world, world.driver():
        await world.start("sliced", "gpu-0", configs=[time_slicing("Long")])
        await world.start("served", "gpu-1", configs=[mps()])
        assert machine.time_slice(machine.gpus[0].uuid) == 3
        assert len(machine.daemons()) == 1
        for name in ("sliced", "served"):
            await world.kubelet.end_pod(name)
        assert world.leftovers() == []


async def test_relative_directories_reach_neither_daemons_nor_cdi_files(gpu_machine, monkeypatch):
    machine = gpu_machine("p5.48xlarge", 1)
    async with gpu_world(machine) as world:
        monkeypatch.chdir(world.kubelet.root)
        places = {"kubelet_root": Path(), "cdi_directory": Path(world.kubelet.cdi.name)}
        relative = {
            "driverRoot": os.path.relpath(machine.driver_root),
            "devRoot": os.path.relpath(machine.root / "host"),
        }
        async with world.driver(places, **relative):
            content = world.cdi(await world.start("served", "gpu-0", configs=[mps()]))
            (pid,) = machine.daemons()
            pipe = next(each for each in environment_of(pid) if each.startswith("CUDA_MPS_PIPE_DIRECTORY="))
            assert pipe.startswith(f"CUDA_MPS_PIPE_DIRECTORY={world.kubelet.root}/plugins/")
            everything = [content, *content["devices"]]
            edits = [each["containerEdits"] for each in everything]
            hosts = [each["hostPath"] for found in edits for each in found.get("mounts", ())]
            hosts += [each["hostPath"] for found in edits for each in found.get("deviceNodes", ())]
            assert [path for path in hosts if not path.startswith("/")] == []
            await world.kubelet.end_pod("served")


def environment_of(pid):
    return Path(f"/proc/{pid}/environ").read_text().split("\0")


@pytest.mark.skipif(os.geteuid() != 0, reason="root makes device files")
@pytest.mark.parametrize("has_module", [True, False])
async def test_device_files_that_are_missing_after_a_boot_are_made(gpu_machine, has_module):
    machine = gpu_machine("p5.48xlarge", 1)
    devices, proc = machine.root / "host/dev", machine.state / "proc"
    lines = "Character devices:\n195 nvidia\n195 nvidiactl\n240 nvidia-caps\n{}\nBlock devices:\n259 blkext\n"
    loaded = lines.format("235 nvidia-uvm\n")
    (proc / "devices").write_text(loaded if has_module else lines.format(""))
    machine.write_program(
        "nvidia-modprobe", f'#!/bin/sh\necho "$*" > {machine.state}/loaded\ncat > {proc}/devices <<END\n{loaded}END\n'
    )
    (proc / "driver/nvidia").mkdir(parents=True)
    (proc / "driver/nvidia/params").write_text("ModifyDeviceFiles: 1\nDeviceFileGID: 44\nDeviceFileMode: 432\n")
    async with gpu_world(machine) as world, world.driver():
        for name in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"):
            (devices / name).unlink()
        edits = world.edits(await world.start("first", "gpu-0"))["gpu-0"]
        names = ["nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"]
        assert [each["path"] for each in edits["deviceNodes"]] == [f"/dev/{name}" for name in names]
        found = {name: os.stat(devices / name) for name in names[1:]}
        numbers = {name: (os.major(each.st_rdev), os.minor(each.st_rdev)) for name, each in found.items()}
        assert numbers == {"nvidiactl": (195, 255), "nvidia-uvm": (235, 0), "nvidia-uvm-tools": (235, 1)}
        assert {(stat.filemode(each.st_mode), each.st_gid) for each in found.values()} == {("crw-rw----", 44)}
        assert (machine.state / "loaded").exists() != has_module


async def test_time_slicing(gpu_machine):
    machine = gpu_machine("p5.48xlarge")
    first, second = machine.gpus[0].uuid, machine.gpus[1].uuid
    async with gpu_world(machine) as world, world.driver():
        uid = await world.start(
            "sliced", "gpu-0", "gpu-1", configs=[time_slicing("Long", "r0"), time_slicing(None, "r1")]
        )
        assert machine.calls() == [
            f"SetComputeMode gpu-0 {DEFAULT}",
            f"nvidia-smi compute-policy -i {first} --set-timeslice 3",
            f"SetComputeMode gpu-1 {DEFAULT}",
            f"nvidia-smi compute-policy -i {second} --set-timeslice 0",
        ]
        assert world.edits(uid)["gpu-0"]["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
        message = "NVIDIA's own driver takes this configuration only with its feature gate TimeSlicingSettings"

        async def told():
            events = await world.cluster.list("Event")
            return [each for each in events if each["involvedObject"]["uid"] == uid and message in each["message"]]

        await world.kubelet.eventually(told, "an event of the claim")
        await world.kubelet.end_pod("sliced")
        assert machine.calls() == [
            f"nvidia-smi compute-policy -i {first} --set-timeslice 0",
            f"nvidia-smi compute-policy -i {second} --set-timeslice 0",
        ]
        assert world.leftovers() == []


async def test_mps(gpu_machine):
    machine = gpu_machine("p5.48xlarge")
    uuids = [machine.gpus[2].uuid, machine.gpus[4].uuid]
    limits = {"defaultPinnedDeviceMemoryLimit": "15Gi", "defaultPerDevicePinnedMemoryLimit": {"1": "2500Mi"}}
    wanted = mps("r0", "r1", defaultActiveThreadPercentage=50, multiUser=True, **limits)
    async with gpu_world(machine) as world, world.driver():
        uid = await world.start("shared", "gpu-2", "gpu-4", "gpu-5", configs=[wanted])
        assert machine.calls() == [
            f"SetComputeMode gpu-2 {EXCLUSIVE}",
            f"SetComputeMode gpu-4 {EXCLUSIVE}",
            f"nvidia-cuda-mps-control -d -M CUDA_VISIBLE_DEVICES={','.join(uuids)}",
            "nvidia-cuda-mps-control: set_default_active_thread_percentage 50",
            f"nvidia-cuda-mps-control: set_default_device_pinned_mem_limit {uuids[0]} 15360M",
            f"nvidia-cuda-mps-control: set_default_device_pinned_mem_limit {uuids[1]} 2500M",
        ]
        (daemon,) = world.mps_directories()
        assert daemon.name.startswith(f"{uid}-")
        assert len(daemon.name) == len(uid) + 6
        edits = world.edits(uid)
        for device in ("gpu-2", "gpu-4"):
            assert "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps" in edits[device]["env"]
            mounts = {each["containerPath"]: each["hostPath"] for each in edits[device]["mounts"]}
            assert mounts["/tmp/nvidia-mps"] == str(daemon / "pipe")
            if os.geteuid() == 0:
                # The daemon has the same /dev/shm as its clients, and nobody else has.
                assert mounts["/dev/shm"] == str(daemon / "shm")
                assert [each.name for each in (daemon / "shm").iterdir()] == [f"mps-of-{daemon.name}"]
                assert not Path(f"/dev/shm/mps-of-{daemon.name}").exists()
        assert edits["gpu-5"]["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
        await world.kubelet.end_pod("shared")
        assert machine.calls() == [
            "nvidia-cuda-mps-control: quit",
            f"SetComputeMode gpu-2 {DEFAULT}",
            f"SetComputeMode gpu-4 {DEFAULT}",
        ]
        assert world.leftovers() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="file systems are mounted by root alone")
async def test_what_containers_leave_in_the_pipe_directory_of_mps_harms_nobody(gpu_machine, tmp_path):
    machine = gpu_machine("p5.48xlarge", 1)
    secret = tmp_path / "secret"
    secret.write_text("of the machine")
    async with gpu_world(machine) as world, world.driver():
        await world.start("hostile", "gpu-0", configs=[mps()])
        (pipe,) = [each / "pipe" for each in world.mps_directories()]
        (pipe / "link").symlink_to(secret)
        with pytest.raises(OSError, match="symbolic links"):
            (pipe / "link").write_text("overwritten")
        with pytest.raises(OSError, match="No space left"):
            (pipe / "large").write_bytes(bytes(17 << 20))
        (pipe / "large").unlink()
        _nest(pipe, 2 * sys.getrecursionlimit())
        await world.kubelet.end_pod("hostile")
        assert world.leftovers() == []
    assert secret.read_text() == "of the machine"


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces are made by root alone")
async def test_a_container_that_claims_to_be_a_daemon_of_others_is_left_alone(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    async with gpu_world(machine) as world, world.driver():
        await world.start("shared", "gpu-0", configs=[mps()])
        (daemon,) = world.mps_directories()
        mark = f"CUDA_MPS_PIPE_DIRECTORY={daemon / 'pipe'}"
        command = ["unshare", "--pid", "--fork", "--kill-child", "env", mark, "sleep", "60"]
        with subprocess.Popen(command) as container:
            try:

                async def is_seen():
                    return len(machine.daemons()) == 2

                await world.kubelet.eventually(is_seen, "the process in the container")
                await world.kubelet.end_pod("shared")
                assert not any(world.mps_directories())
                assert container.poll() is None
            finally:
                container.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="file systems are mounted by root alone")
async def test_shared_memory_of_all_daemons_is_half_of_the_memory_at_most(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 2)
    half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    async with gpu_world(machine) as world, world.driver():
        for number in range(2):
            await world.start(f"shared-{number}", f"gpu-{number}", configs=[mps()])
        sizes = [os.statvfs(each / "shm") for each in world.mps_directories()]
        assert len(sizes) == 2
        assert half // 4 < sum(each.f_blocks * each.f_frsize for each in sizes) <= half


def _nest(directory, depth):
    at = os.open(directory, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


async def test_a_daemon_that_died_is_started_again_by_the_next_driver_and_one_that_lives_is_kept(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 2)
    async with gpu_world(machine) as world:
        async with world.driver():
            await world.start("first", "gpu-0", configs=[mps()])
            await world.start("second", "gpu-1", configs=[mps()])
        alive = set(machine.daemons())
        assert len(alive) == 2
        machine.calls()
        dead = next(pid for pid in alive if machine.gpus[0].uuid in Path(f"/proc/{pid}/environ").read_text())
        machine.kill_daemons([dead])
        for directory in world.mps_directories():
            # A container that shares the GPU may leave it there.
            (directory / "pipe/left/deeper").mkdir(parents=True)
        async with world.driver():
            expected = [
                f"SetComputeMode gpu-0 {EXCLUSIVE}",
                f"nvidia-cuda-mps-control -d CUDA_VISIBLE_DEVICES={machine.gpus[0].uuid}",
            ]
            assert machine.calls() == expected
            assert alive - {dead} < set(machine.daemons())
            await world.kubelet.end_pod("first")
            await world.kubelet.end_pod("second")
        assert world.leftovers() == []


async def test_daemons_are_looked_after_while_the_driver_runs(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    async with gpu_world(machine) as world, world.driver(checkSeconds=0.1):
        uid = await world.start("shared", "gpu-0", configs=[mps()])
        dead = machine.daemons()
        machine.kill_daemons()

        async def runs_again():
            return machine.daemons() and machine.daemons() != dead

        await world.kubelet.eventually(runs_again, "another daemon")
        # Somebody has removed the record: then nobody has the claim.
        (world.directory / "claims" / f"{uid}.json").unlink()

        async def ended():
            return not machine.daemons() and machine.read("compute_mode") == "0" and not any(world.mps_directories())

        await world.kubelet.eventually(ended, "no daemon")


async def test_a_daemon_that_does_not_start_fails_the_claim_with_what_it_said(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    machine.fail("mps", "no memory for it")
    async with gpu_world(machine) as world, world.driver():
        with pytest.raises(PrepareError, match="ended with status 1: no memory for it"):
            await world.start("failing", "gpu-0", configs=[mps()])
        machine.mend()
        await world.kubelet.start_pod("failing")
        await world.kubelet.end_pod("failing")
        assert world.leftovers() == []


async def test_partitions_are_made_for_a_claim(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    big, small = "gpu-0-mig-3g40gb-9-4", "gpu-0-mig-1g10gb-19-0"
    async with gpu_world(machine) as world, world.driver(DynamicMIG=True):
        uid = await world.start("cut", big, small)
        assert machine.calls() == [
            "SetMigMode gpu-0 1",
            "CreateGpuInstance gpu-0 9 4:4",
            "CreateComputeInstance gpu-0 1 2",
            "CreateGpuInstance gpu-0 19 0:1",
            "CreateComputeInstance gpu-0 2 0",
        ]
        nodes = world.edits(uid)[big]["deviceNodes"]
        capabilities = [each for each in nodes if "nvidia-caps" in each["path"]]
        assert [each["path"] for each in capabilities] == [f"/dev/nvidia-caps/nvidia-cap{n}" for n in (12, 13)]
        assert {(each["type"], each["major"]) for each in capabilities} == {("c", 240)}
        assert nodes[0]["path"] == "/dev/nvidia0"
        claim = await world.cluster.get("ResourceClaim", "cut")
        assert [each["data"]["parentUUID"] for each in claim["status"]["devices"]] == [machine.gpus[0].uuid] * 2
        # Once more after a restart of the kubelet: everything is there.
        await world.kubelet.restart()
        await world.kubelet.start_pod("cut")
        assert machine.calls() == []
        await world.kubelet.end_pod("cut")
        assert machine.calls() == [
            "DestroyComputeInstance gpu-0 1",
            "DestroyGpuInstance gpu-0 1",
            "DestroyComputeInstance gpu-0 2",
            "DestroyGpuInstance gpu-0 2",
            "SetMigMode gpu-0 0",
        ]
        assert world.leftovers() == []


async def test_the_mig_mode_of_an_a100_stays_on(gpu_machine):
    machine = gpu_machine("p4d.24xlarge", 1, mig=(0,))
    async with gpu_world(machine) as world, world.driver(DynamicMIG=True):
        await world.start("cut", "gpu-0-mig-7g40gb-0-0")
        await world.kubelet.end_pod("cut")
        assert not [each for each in machine.calls() if "SetMigMode" in each]
        assert machine.instances() == []


async def test_partitions_of_nobody_are_destroyed_at_the_start_and_those_of_claims_are_kept(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 2)
    async with gpu_world(machine) as world:
        async with world.driver(DynamicMIG=True):
            await world.start("kept", "gpu-0-mig-1g10gb-19-6")
        machine.put_instance(0, 7, profile=9, start=0, size=4)
        machine.write("mig_mode", 1, number=1)
        machine.put_instance(1, 3, profile=0, start=0, size=8)
        machine.calls()
        async with world.driver(DynamicMIG=True):
            assert machine.instances(0) == [(19, 6)]
            assert machine.instances(1) == []
            assert (machine.read("mig_mode", 0), machine.read("mig_mode", 1)) == ("1", "0")
            await world.kubelet.end_pod("kept")
        assert world.leftovers() == []


async def test_nothing_is_destroyed_while_a_record_cannot_be_read(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    async with gpu_world(machine) as world:
        async with world.driver(DynamicMIG=True):
            uid = await world.start("damaged", "gpu-0-mig-1g10gb-19-6")
        (world.directory / "claims" / f"{uid}.json").write_text("?")
        async with world.driver(DynamicMIG=True):
            assert machine.instances(0) == [(19, 6)]


async def test_a_record_of_another_version_harms_its_own_claim_alone(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 2)
    async with gpu_world(machine) as world:
        async with world.driver(DynamicMIG=True):
            uid = await world.start("strange", "gpu-0-mig-1g10gb-19-6")
        checkpoint = Checkpoint(world.directory / "claims", GpuOptions().boot_id)
        record = checkpoint.read(uid)
        checkpoint.write(msgspec.structs.replace(record, state={"partitions": "all"}))
        async with world.driver(DynamicMIG=True, **QUICK):
            assert machine.instances(0) == [(19, 6)]
            await world.start("other", "gpu-1", configs=[time_slicing("Long")])
            await world.kubelet.end_pod("other")
            assert machine.time_slice(machine.gpus[1].uuid) == 0
            with pytest.raises(UnprepareError, match="is not understood"):
                await world.kubelet.try_end("strange")


async def test_partitions_that_are_in_the_way_are_named(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    async with gpu_world(machine) as world, world.driver(DynamicMIG=True):
        await world.start("first", "gpu-0-mig-1g10gb-19-5")
        with pytest.raises(PrepareError, match="lies where gpu-0-mig-1g10gb-19-5 of claim default/first"):
            await world.start("second", "gpu-0-mig-3g40gb-9-4")
        with pytest.raises(PrepareError, match="still has partitions, and cannot be used as a whole"):
            await world.start("third", "gpu-0")
        await world.kubelet.end_pod("first")
        await world.kubelet.start_pod("second")
        await world.kubelet.end_pod("second")
        await world.kubelet.start_pod("third")


async def test_a_partition_that_somebody_made_is_used_and_left(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1, mig=(0,))
    machine.put_instance(0, 2, profile=9, start=4, size=4, uuid="MIG-1")
    async with gpu_world(machine) as world, world.driver():
        uid = await world.start("static", "gpu-0-mig-3g40gb-9-4", configs=[mps(kind="MigDeviceConfig")])
        edits = world.edits(uid)["gpu-0-mig-3g40gb-9-4"]
        paths = [each["path"] for each in edits["deviceNodes"]]
        assert paths[-2:] == ["/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31"]
        assert machine.calls() == ["nvidia-cuda-mps-control -d CUDA_VISIBLE_DEVICES=MIG-1"]
        await world.kubelet.end_pod("static")
        assert machine.instances() == [(9, 4)]
        assert machine.daemons() == []


async def test_device_files_are_looked_for_before_cdi_is_written(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    async with gpu_world(machine) as world, world.driver():
        (machine.root / "host/dev/nvidia0").unlink()
        (machine.state / "proc/devices").unlink()
        with pytest.raises(PrepareError, match="nvidia0 does not exist: load the kernel module"):
            await world.start("early", "gpu-0")
        assert not list(world.kubelet.cdi.glob("*"))


async def test_a_pod_starts_without_the_device_file_of_unified_memory_and_an_event_tells(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    async with gpu_world(machine) as world, world.driver():
        for name in ("nvidia-uvm", "nvidia-uvm-tools"):
            (machine.root / "host/dev" / name).unlink()
        edits = world.edits(await world.start("early", "gpu-0"))["gpu-0"]
        paths = [each["path"] for each in edits["deviceNodes"]]
        assert paths == ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-modeset"]

        async def is_told():
            events = await world.cluster.list("Event")
            return [each for each in events if each["reason"] == "MissingDeviceFile"]

        (event,) = await world.kubelet.eventually(is_told, "a warning")
        assert "CUDA needs " in event["message"]
        assert "/dev/nvidia-uvm: load the kernel module" in event["message"]


async def test_a_prepare_that_nobody_waits_for_is_done_and_undone_whole(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 2)
    (machine.state / "delay").write_text("100")
    async with gpu_world(machine) as world, world.driver(DynamicMIG=True):
        await world.place("slow", "gpu-0-mig-3g40gb-9-4", "gpu-1", configs=[mps()])
        world.kubelet.faults.next_prepare(deadline(0.25))
        with pytest.raises(PrepareError):
            await world.kubelet.try_pod("slow")
        # It is in the midst of it, and is not disturbed.
        await world.kubelet.end_pod("slow")
        calls = machine.calls()
        assert calls.index("CreateComputeInstance gpu-0 1 2") < calls.index("DestroyComputeInstance gpu-0 1")
        assert world.leftovers() == []


async def test_a_driver_with_other_settings_takes_back_what_it_would_not_do(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    async with gpu_world(machine) as world:
        async with world.driver():
            await world.start("sliced", "gpu-0", configs=[time_slicing()])
        machine.calls()
        async with world.driver(TimeSlicingSettings=False):
            await world.kubelet.restart()
            await world.kubelet.start_pod("sliced")
            reset = f"nvidia-smi compute-policy -i {machine.gpus[0].uuid} --set-timeslice 0"
            assert machine.calls() == [reset]
            await world.kubelet.end_pod("sliced")
            assert machine.calls() == []


async def test_libraries_of_another_version_fail_the_claim(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    async with gpu_world(machine) as world, world.driver():
        (machine.state / "driver").write_text("590.10.01 13010")
        with pytest.raises(PrepareError, match=r"has no libraries of the driver's version 590\.10\.01: "):
            await world.start("replaced", "gpu-0")


REFUSED = [
    (["gpu-0"], [config("GpuConfig", sharing={"strategy": "Magic"})], "sharing.strategy"),
    (["gpu-0"], [config("GpuConfig", sharing={})], "missing required field `strategy`"),
    (["gpu-0"], [config("GpuConfig", colour="red")], "unknown field `colour`"),
    (["gpu-0"], [mps(defaultActiveThreadPercentage=101)], "give a number from 0 to 100"),
    (["gpu-0"], [mps(defaultPinnedDeviceMemoryLimit="1Ki")], "give at least 1Mi"),
    (["gpu-0"], [mps(defaultPerDevicePinnedMemoryLimit={"7": "1Gi"})], "has '7', and the claim has no such device"),
    (["gpu-0"], [config("MigDeviceConfig", "r0")], "is a GPU, which takes a GpuConfig"),
    (["gpu-0-mig-1g10gb-19-0"], [config("GpuConfig", "r0")], "is a partition, which takes a MigDeviceConfig"),
    (["gpu-0-mig-1g10gb-19-0"], [mps(kind="MigDeviceConfig")], "not for partitions that are made for a claim"),
    (["gpu-0-mig-1g10gb-19-0"], [time_slicing("Long", kind="MigDeviceConfig")], "have no timeSlicingConfig"),
    (["gpu-0"], [config("VfioDeviceConfig", iommu={"backendPolicy": "LegacyOnly"})], "does not pass GPUs through"),
    (["gpu-0"], [config("ComputeDomainChannelConfig", domainID="x")], "ComputeDomainChannelConfig is not known"),
    (["gpu-9"], [], "there is no device gpu-9 on this machine"),
]
"""Devices of a claim, its configuration, and what is wrong with it."""


async def test_configuration_that_makes_no_sense_is_refused(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    async with gpu_world(machine) as world, world.driver(DynamicMIG=True):
        for number, (devices, configs, problem) in enumerate(REFUSED):
            with pytest.raises(PrepareError, match=problem):
                await world.start(f"wrong-{number}", *devices, configs=configs)
            await world.kubelet.end_pod(f"wrong-{number}")
        assert machine.calls() == []
        assert world.leftovers() == []


async def test_the_machine_is_started_anew(gpu_machine, tmp_path):
    machine = gpu_machine("p5.48xlarge", 2)
    part = "gpu-1-mig-3g40gb-9-4"
    async with gpu_world(machine) as world:
        async with world.driver(DynamicMIG=True):
            uid = await world.start("both", "gpu-0", part, configs=[mps()])
            before = world.edits(uid)
        machine.kill_daemons()
        machine.forget()
        shutil.rmtree(world.kubelet.cdi)
        (tmp_path / "boot_id").write_text("another")
        async with world.driver({"boot_id_file": tmp_path / "boot_id"}, DynamicMIG=True):
            # Nothing is made again before the kubelet asks for it.
            assert (machine.calls(), machine.daemons()) == ([], [])
            await world.kubelet.restart()
            await world.kubelet.start_pod("both")
            assert world.edits(uid) == before
            assert machine.instances(1) == [(9, 4)]
            assert machine.daemons()
            await world.kubelet.end_pod("both")
        assert world.leftovers() == []


@pytest.mark.parametrize(
    ("gate", "wanted"), [("MPSSupport", mps()), ("TimeSlicingSettings", time_slicing("Short"))], ids=["mps", "slices"]
)
async def test_a_gate_that_is_off_is_named(gpu_machine, gate, wanted):
    machine = gpu_machine("p5.48xlarge", 1)
    async with gpu_world(machine) as world, world.driver(**{gate: False}):
        with pytest.raises(PrepareError, match=f"needs the feature gate {gate}, which is off"):
            await world.start("gated", "gpu-0", configs=[wanted])


async def test_the_claim_wins_over_the_class_and_what_fits_not_is_ignored(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 2)
    of_class = time_slicing("Short", "r0") | {"source": "FromClass"}
    async with gpu_world(machine) as world, world.driver(DynamicMIG=True):
        configs = [time_slicing("Long"), of_class, config("MigDeviceConfig")]
        await world.start("both", "gpu-0", "gpu-1-mig-1g10gb-19-0", configs=configs)
        slices = [each for each in machine.calls() if "nvidia-smi" in each]
        assert slices == [f"nvidia-smi compute-policy -i {machine.gpus[0].uuid} --set-timeslice 3"]


async def test_claims_that_share_a_gpu_must_want_the_same(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    share, other = ({"shareID": f"00000000-0000-4000-8000-00000000000{n}"} for n in (1, 2))
    async with gpu_world(machine) as world, world.driver(ConsumableShares="memory"):
        await world.start("first", "gpu-0", configs=[time_slicing("Long")], **share)
        problem = "is shared with claim default/first .* TimeSlicing Long, and this claim has TimeSlicing Short"
        with pytest.raises(PrepareError, match=problem):
            await world.start("second", "gpu-0", configs=[time_slicing("Short")], **other)
        with pytest.raises(PrepareError, match="MPS is not for GPUs that several claims share by capacity"):
            await world.start("third", "gpu-0", configs=[mps()], **other)
        await world.start("fourth", "gpu-0", configs=[time_slicing("Long")], **other)
        await world.kubelet.end_pod("first")
        assert machine.time_slice(machine.gpus[0].uuid) == 3
        await world.kubelet.end_pod("fourth")
        for name in ("second", "third"):
            await world.kubelet.end_pod(name)
        assert world.leftovers() == []


async def test_who_only_looks_changes_nothing(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    async with gpu_world(machine) as world, world.driver():
        await world.start("user", "gpu-0", configs=[time_slicing("Long")])
        machine.calls()
        label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        await world.cluster.client.patch(kind_of("Namespace"), "default", label)
        uid = await world.start("admin", "gpu-0", configs=[time_slicing("Short")], adminAccess=True)
        assert world.edits(uid)["gpu-0"]["deviceNodes"][0]["path"] == "/dev/nvidia0"
        await world.kubelet.end_pod("admin")
        assert machine.calls() == []
