"""What the driver publishes of machines, field by field, and why it leaves a GPU out."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dray.cli import main
from dray.driver import DriverContext, DriverError
from dray.drivers.registry import load
from dray.fleet.choice import choose
from dray.fleet.pools import declared

GPU = "gpu.nvidia.com"
INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, UNKNOWN = 2, 3, 4, 13, 999
A100 = {
    "1g.5gb": (19, 4864, 14, 1, 0, 0, 0, 0),
    "1g.5gb+me": (20, 4864, 14, 1, 1, 0, 1, 1),
    "1g.10gb": (15, 9856, 14, 1, 1, 0, 0, 0),
    "2g.10gb": (14, 9856, 28, 2, 1, 0, 0, 0),
    "3g.20gb": (9, 19968, 42, 3, 2, 0, 0, 0),
    "4g.20gb": (5, 19968, 56, 4, 2, 0, 0, 0),
    "7g.40gb": (0, 40192, 98, 7, 5, 0, 1, 1),
}
"""By profile: id, MiB, multiprocessors, copy engines, decoders, encoders, JPEG and OFA engines."""
H100 = {
    "1g.10gb": (19, 9984, 16, 1, 1, 0, 1, 0),
    "1g.10gb+me": (20, 9984, 16, 1, 1, 0, 1, 1),
    "1g.20gb": (15, 20096, 26, 1, 1, 0, 1, 0),
    "2g.20gb": (14, 20096, 32, 2, 2, 0, 2, 0),
    "3g.40gb": (9, 40448, 60, 3, 3, 0, 3, 0),
    "4g.40gb": (5, 40448, 64, 4, 4, 0, 4, 0),
    "7g.80gb": (0, 81152, 132, 8, 7, 0, 7, 1),
}
GB200 = {
    "1g.23gb": (19, 22528, 18, 2, 1, 0, 1, 0),
    "1g.23gb+me": (20, 22528, 18, 2, 1, 0, 1, 1),
    "1g.47gb": (15, 46592, 32, 2, 1, 0, 1, 0),
    "2g.47gb": (14, 46592, 38, 4, 2, 0, 2, 0),
    "3g.93gb": (9, 94208, 70, 6, 3, 0, 3, 0),
    "4g.93gb": (5, 94208, 76, 8, 4, 0, 4, 0),
    "7g.186gb": (0, 188416, 152, 16, 7, 0, 7, 1),
}
PLACES = {19: (1, 0, 1, 2, 3, 4, 5, 6), 20: (1, 0, 1, 2, 3, 4, 5, 6), 15: (2, 0, 2, 4, 6), 14: (2, 0, 2, 4)}
PLACES |= {9: (4, 0, 4), 5: (4, 0), 0: (8, 0)}
CAPACITIES = ("multiprocessors", "copyEngines", "decoders", "encoders", "jpegEngines", "ofaEngines")


def published(machine, **settings):
    driver = load("gpu", machine.settings(**settings))
    driver.context = DriverContext("worker", Path("/nonexistent"), None, lambda: None)

    async def ask():
        return (await driver.pools())[0], await driver.left_out()

    pool, left_out = asyncio.run(ask())
    return pool, {each.name: each.document() for each in pool.all_devices()}, left_out


def strings(**attributes):
    return {name: {"string": text} for name, text in attributes.items()}


def versions(**attributes):
    return {name: {"version": text} for name, text in attributes.items()}


@pytest.mark.parametrize(
    ("kind", "name", "memory", "architecture", "capability", "addressing", "bus", "root", "node"),
    [
        ("p4d.24xlarge", "A100-SXM4-40GB", "40Gi", "Ampere", "8.0.0", "HMM", "0000:10:1c.0", "pci0000:10", 0),
        ("p5.48xlarge", "H100 80GB HBM3", "81559Mi", "Hopper", "9.0.0", "HMM", "0000:53:00.0", "pci0000:44", 0),
        ("gb200-nvl72-tray", "GB200", "189471Mi", "Blackwell", "10.0.0", "ATS", "0008:06:00.0", "pci0008:00", 0),
    ],
)
def test_a_whole_gpu(gpu_machine, kind, name, memory, architecture, capability, addressing, bus, root, node):
    machine = gpu_machine(kind)
    pool, devices, left_out = published(machine)
    assert (pool.name, left_out, pool.counters) == ("worker", [], {})
    assert list(devices) == [f"gpu-{number}" for number in range(len(machine.gpus))]
    assert devices["gpu-0"] == {
        "name": "gpu-0",
        "attributes": {
            **strings(type="gpu", uuid=machine.gpus[0].uuid, productName=f"NVIDIA {name}", brand="Nvidia"),
            **strings(architecture=architecture, addressingMode=addressing),
            **versions(cudaComputeCapability=capability, driverVersion="580.105.8", cudaDriverVersion="13.0.0"),
            "resource.kubernetes.io/pciBusID": {"string": bus},
            "resource.kubernetes.io/pcieRoot": {"string": root},
            "resource.kubernetes.io/numaNode": {"int": node},
        },
        "capacity": {"memory": {"value": memory}},
    }


@pytest.mark.parametrize(
    ("kind", "options", "settings"),
    [
        ("p5.48xlarge", "", {}),
        ("p5.48xlarge", ":mig", {"DynamicMIG": True}),
        ("p4d.24xlarge", ":mig", {"DynamicMIG": True}),
        ("gb200-nvl72-tray", ":mig", {"DynamicMIG": True}),
        ("a3-highgpu-1g", ":shared-memory", {"ConsumableShares": "memory"}),
        ("a3-highgpu-1g", ":shared-unlimited", {"ConsumableShares": "unlimited"}),
        ("a3-highgpu-1g", ":shares-4", {"ConsumableShares": "4"}),
    ],
)
def test_a_machine_publishes_what_a_fleet_does_for_it(gpu_machine, kind, options, settings):
    machine = gpu_machine(kind, mig=range(8) if kind == "p4d.24xlarge" else ())
    found, _, left_out = published(machine, **settings)
    simulated = declared(choose([f"{kind}{options}=1"]).machines[0])[GPU]
    assert left_out == []
    assert found.counter_sets() == simulated.counter_sets()
    groups = [[device.document() for device in group] for group in found.groups()]
    expected = [[device.document() for device in group] for group in simulated.groups()]
    assert groups == expected


@pytest.mark.parametrize(
    ("kind", "profiles", "mode"),
    [("p4d.24xlarge", A100, True), ("p5.48xlarge", H100, False), ("gb200-nvl72-tray", GB200, False)],
)
def test_all_partitions_with_their_counters(gpu_machine, kind, profiles, mode):
    """With the MIG mode on, as an A100 needs it, or off; the others are offered whole as well."""
    machine = gpu_machine(kind, 1, mig=(0,) if mode else ())
    pool, devices, _ = published(machine, DynamicMIG=True)
    (counters,) = pool.counter_sets()
    # Of everything as much as the profile with the most of it has.
    memory, *engines = (str(max(column)) for column in list(zip(*profiles.values(), strict=True))[1:])
    totals = {"memory": f"{memory}Mi", **dict(zip(map(kebab, CAPACITIES), engines, strict=True))}
    totals |= {f"memory-slice-{number}": "1" for number in range(8)}
    assert counters["name"] == "gpu-0-counter-set"
    assert {name: Quantified(value) for name, value in values(counters["counters"]).items()} == totals
    if not mode:
        whole = devices.pop("gpu-0")
        (consumed,) = whole["consumesCounters"]
        assert consumed["counterSet"] == "gpu-0-counter-set"
        assert values(consumed["counters"]) == values(counters["counters"])
        # As the published driver: the memory of the largest profile, not what NVML reports of the GPU.
        amounts = {"memory": f"{memory}Mi", **dict(zip(CAPACITIES, engines, strict=True))}
        assert {name: Quantified(value) for name, value in values(whole["capacity"]).items()} == amounts
    expected = {}
    for profile, (number, memory, *engines) in profiles.items():
        size, *starts = PLACES[number]
        for start in starts:
            shape = profile.replace(".", "").replace("+", "-")
            amounts = {"memory": f"{memory}Mi", **dict(zip(CAPACITIES, map(str, engines), strict=True))}
            expected[f"gpu-0-mig-{shape}-{number}-{start}"] = profile, amounts, range(start, start + size)
    assert list(devices) == sorted(expected)
    for name, (profile, amounts, places) in expected.items():
        device = devices[name]
        assert {key: Quantified(value) for key, value in values(device["capacity"]).items()} == amounts
        taken = {f"{kebab(key)}": amount for key, amount in amounts.items()}
        taken |= {f"memory-slice-{number}": "1" for number in places}
        (consumed,) = device["consumesCounters"]
        assert {key: Quantified(value) for key, value in values(consumed["counters"]).items()} == taken
        assert device["attributes"]["profile"] == {"string": profile}
        assert device["attributes"]["parentUUID"] == {"string": machine.gpus[0].uuid}
        assert "uuid" not in device["attributes"]


class Quantified(str):
    """Equal to another way of writing the same amount."""

    def __eq__(self, other):
        from dray.api.quantity import Quantity

        return Quantity.parse(str(self)) == Quantity.parse(str(other))

    __hash__ = str.__hash__


def values(named):
    return {name: each["value"] for name, each in named.items()}


def kebab(name):
    return "".join(f"-{each.lower()}" if each.isupper() else each for each in name)


def test_partitions_that_somebody_made(gpu_machine):
    machine = gpu_machine("a3-highgpu-8g", 2, mig=(0,))
    machine.put_instance(0, 2, profile=9, start=4, size=4, uuid="MIG-1")
    machine.put_instance(0, 5, profile=19, start=0, size=1, uuid="MIG-2")
    pool, devices, left_out = published(machine)
    assert (left_out, pool.counters) == ([], {})
    assert list(devices) == ["gpu-0-mig-1g10gb-19-0", "gpu-0-mig-3g40gb-9-4", "gpu-1"]
    half = devices["gpu-0-mig-3g40gb-9-4"]
    assert half["attributes"]["uuid"] == {"string": "MIG-1"}
    assert half["attributes"]["type"] == {"string": "mig"}
    assert "consumesCounters" not in half
    engines = {"multiprocessors": "60", "copyEngines": "3", "decoders": "3", "encoders": "0", "jpegEngines": "3"}
    slices = {f"memorySlice{number}": "1" for number in range(4, 8)}
    assert values(half["capacity"]) == {"memory": "40448Mi", "ofaEngines": "0", **engines, **slices}


def test_a_smaller_compute_instance_has_a_profile_of_its_own(gpu_machine):
    machine = gpu_machine("a3-highgpu-8g", 1, mig=(0,))
    machine.put_instance(0, 2, profile=9, start=4, size=4, uuid="MIG-1")
    machine.put_instance(0, 5, profile=19, start=0, size=1, uuid="MIG-2")
    (machine.state / "gpus/0/compute").mkdir()
    machine.write("compute/2", "3 1 16")
    _, devices, left_out = published(machine)
    assert left_out == []
    assert list(devices) == ["gpu-0-mig-1c3g40gb-9-4-0", "gpu-0-mig-1g10gb-19-0"]
    part = devices["gpu-0-mig-1c3g40gb-9-4-0"]
    assert part["attributes"]["profile"] == {"string": "1c.3g.40gb"}
    assert part["attributes"]["uuid"] == {"string": "MIG-1"}
    assert (values(part["capacity"])["multiprocessors"], values(part["capacity"])["memory"]) == ("16", "40448Mi")


@pytest.mark.parametrize(
    ("shares", "default", "least"), [("memory", "max", "1Mi"), ("unlimited", "0", "0"), ("3", "0", "0")]
)
def test_gpus_and_partitions_can_be_shared(gpu_machine, shares, default, least):
    machine = gpu_machine("a3-highgpu-8g", 2, mig=(0,))
    machine.put_instance(0, 5, profile=19, start=0, size=1, uuid="MIG-2")
    facts = machine.read("facts", 1).replace(f"memory {81559 * 2**20}", f"memory {81559 * 2**20 + 4096}")
    machine.write("facts", facts, number=1)
    _, devices, _ = published(machine, ConsumableShares=shares)
    _, dynamic, _ = published(machine, ConsumableShares=shares, DynamicMIG=True)
    assert len(dynamic) == 2 * 26
    # Rounded down to whole MiB.
    most = {"gpu-0-mig-1g10gb-19-0": "9984Mi", "gpu-1": "81559Mi"}
    for name, device in (*devices.items(), ("gpu-1", devices["gpu-1"]), *dynamic.items()):
        assert device["allowMultipleAllocations"] is True
        memory = device["capacity"]["memory"]
        limit = most.get(name, memory["value"]) if device is devices.get(name) else memory["value"]
        assert memory == {
            "value": limit,
            "requestPolicy": {
                "default": limit if default == "max" else default,
                "validRange": {"min": least, "max": limit, "step": "1Mi"},
            },
        }
        one = {"default": "1", "validRange": {"min": "1", "max": "3", "step": "1"}}
        expected = {"value": "3", "requestPolicy": one} if shares == "3" else None
        assert device["capacity"].get("shares") == expected


# What NVML may not support, and what of the device is missing then.
UNSUPPORTED = {
    "nvmlDeviceGetMemoryInfo": "memory",
    "nvmlDeviceGetName": "productName",
    "nvmlDeviceGetBrand": "brand",
    "nvmlDeviceGetArchitecture": "architecture",
    "nvmlDeviceGetCudaComputeCapability": "cudaComputeCapability",
    "nvmlDeviceGetAddressingMode": "addressingMode",
    "nvmlDeviceGetPciInfo_v3": "resource.kubernetes.io/pciBusID",
}


@pytest.mark.parametrize("function", UNSUPPORTED)
def test_what_nvml_does_not_support_is_left_out_and_the_gpu_is_not(gpu_machine, function):
    machine = gpu_machine("a3-highgpu-8g", 1)
    _, everything, _ = published(machine)
    machine.fail(function, NOT_SUPPORTED)
    _, devices, left_out = published(machine)
    assert [each for each in left_out if each.startswith("gpu")] == []
    members = {**everything["gpu-0"]["attributes"], **everything["gpu-0"]["capacity"]}
    stated = {**devices["gpu-0"]["attributes"], **devices["gpu-0"].get("capacity", {})}
    follows = {"resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"} if "Pci" in function else set()
    assert members.keys() - stated.keys() == {UNSUPPORTED[function], *follows}


def test_a_gpu_that_states_no_memory_is_shared_by_number_and_not_by_memory(gpu_machine):
    machine = gpu_machine("a3-highgpu-8g", 1)
    machine.fail("nvmlDeviceGetMemoryInfo", NOT_SUPPORTED)
    _, devices, _ = published(machine, ConsumableShares="4")
    assert (devices["gpu-0"]["allowMultipleAllocations"], list(devices["gpu-0"]["capacity"])) == (True, ["shares"])
    _, devices, _ = published(machine, ConsumableShares="memory")
    assert "allowMultipleAllocations" not in devices["gpu-0"]


@pytest.mark.parametrize("function", [*UNSUPPORTED, "nvmlDeviceGetMinorNumber"])
def test_the_reason_of_a_gpu_that_is_left_out_names_the_fact_that_cannot_be_read(gpu_machine, function):
    machine = gpu_machine("a3-highgpu-8g", 1)
    machine.fail(function, UNKNOWN)
    _, devices, (reason, *_) = published(machine)
    facts = {"MemoryInfo": "memory", "PciInfo_v3": "PCI address", "CudaComputeCapability": "compute capability"}
    facts |= {"MinorNumber": "minor number", "AddressingMode": "addressing mode"}
    fact = function.removeprefix("nvmlDeviceGet")
    assert devices == {}
    assert f"{facts.get(fact, fact.lower())} of GPU {machine.gpus[0].uuid}: Unknown Error (NVML error 999)" in reason


# Functions of a discovery that need not work on a healthy GPU, and their errors on one.
MAY_LACK = {
    **{function: {NOT_SUPPORTED} for function in UNSUPPORTED},
    "nvmlDeviceGetArchitecture": {NOT_SUPPORTED, FUNCTION_NOT_FOUND},
    "nvmlDeviceGetAddressingMode": {NOT_SUPPORTED, FUNCTION_NOT_FOUND},
    "nvmlDeviceGetGpuInstanceProfileInfoV": {NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND},
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": {NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND},
    "nvmlDeviceGetVirtualizationMode": {NOT_SUPPORTED, FUNCTION_NOT_FOUND},
    "nvmlDeviceGetMigMode": set(),
    "nvmlDeviceGetUUID": set(),
    "nvmlDeviceGetMinorNumber": set(),
    "nvmlDeviceGetHandleByIndex_v2": set(),
}


@pytest.mark.parametrize("function", MAY_LACK)
def test_a_gpu_that_answers_with_an_error_at_the_first_discovery_is_left_out(gpu_machine, function):
    machine = gpu_machine("p5.48xlarge", 1)
    for code in (*range(1, 31), UNKNOWN):
        machine.fail(function, code)
        _, devices, left_out = published(machine, DynamicMIG=True)
        reasons = [each for each in left_out if "(NVML error " in each]
        assert ("gpu-0" in devices, bool(reasons)) == ((True, False) if code in MAY_LACK[function] else (False, True))


IN_MIG_MODE = (
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetGpuInstanceProfileInfoV",
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlDeviceGetGpuInstances",
    "nvmlGpuInstanceGetInfo",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
)


@pytest.mark.parametrize("function", IN_MIG_MODE)
def test_a_gpu_in_mig_mode_is_never_offered_whole(gpu_machine, function):
    machine = gpu_machine("p5.48xlarge", 1, mig=(0,))
    machine.put_instance(0, 2, profile=9, start=4, size=4, uuid="MIG-1")
    for code in (*range(1, 31), UNKNOWN):
        machine.fail(function, code)
        _, devices, left_out = published(machine)
        assert (code, devices, len(left_out)) == (code, {}, 1)


def test_a_gpu_without_mig_need_not_know_what_a_profile_is(gpu_machine):
    machine = gpu_machine("g6.48xlarge", 1)
    machine.fail("nvmlDeviceGetGpuInstanceProfileInfoV", INVALID_ARGUMENT)
    _, devices, _ = published(machine)
    assert list(devices) == ["gpu-0"]


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION])
def test_a_partition_whose_size_is_not_told_is_the_whole_of_its_gpu_instance(gpu_machine, code):
    machine = gpu_machine("a3-highgpu-8g", 1, mig=(0,))
    machine.put_instance(0, 2, profile=9, start=4, size=4, uuid="MIG-1")
    machine.fail("nvmlDeviceGetAttributes_v2", code)
    _, devices, left_out = published(machine)
    assert (list(devices), left_out) == (["gpu-0-mig-3g40gb-9-4"], [])


def test_an_a100_whose_mig_mode_is_off_is_whole_also_in_the_dynamic_mode(gpu_machine):
    machine = gpu_machine("p4d.24xlarge", 2, mig=(1,))
    pool, devices, _ = published(machine, DynamicMIG=True)
    assert list(pool.counters) == ["gpu-1-counter-set"]
    assert devices["gpu-0"]["capacity"] == {"memory": {"value": "40Gi"}}
    assert "consumesCounters" not in devices["gpu-0"]
    assert len(devices) == 1 + 25
    assert "gpu-1" not in devices


def test_numa_nodes_as_a_list(gpu_machine):
    _, devices, _ = published(gpu_machine("p5.48xlarge"), DRAListTypeAttributes=True)
    assert devices["gpu-5"]["attributes"]["resource.kubernetes.io/numaNode"] == {"ints": [1]}


def test_gpus_that_are_left_out_have_a_reason(gpu_machine):
    machine = gpu_machine("a3-highgpu-8g", 4, mig=(1,))
    machine.write("lost", number=0)
    (machine.root / "host/dev/nvidia2").unlink()
    (machine.root / "host/dev/nvidia2").write_text("")
    place = machine.root / "sys/devices/pci0000:90/0000:91:00.0"
    place.mkdir(parents=True)
    for name, text in {"vendor": "0x10de", "device": "0x2330", "class": "0x030200"}.items():
        (place / name).write_text(text)
    machine.bind("0000:91:00.0", place, "vfio-pci")
    _, devices, left_out = published(machine)
    assert list(devices) == ["gpu-3"]
    lost, cut, hidden, *unbound = left_out
    assert lost == "GPU 0: it cannot be opened: GPU is lost (NVML error 15)"
    assert "gpu-1 (0000:05:00.0, NVIDIA H100 80GB HBM3): its MIG mode is on and it has no partitions" in cut
    assert "nvidia2 is not a device file: load the kernel module, or run nvidia-modprobe -c 2" in hidden
    assert "0000:91:00.0 (device 0x2330): it is bound to vfio-pci" in unbound


@pytest.mark.skipif(os.geteuid() != 0, reason="root makes device files")
def test_the_device_file_of_a_gpu_is_made_if_it_is_missing(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 2)
    path = machine.root / "host/dev/nvidia1"
    path.unlink()
    _, devices, left_out = published(machine)
    assert (list(devices), left_out) == (["gpu-0", "gpu-1"], [])
    number = path.stat().st_rdev
    assert (os.major(number), os.minor(number)) == (195, 1)


def inspect(machine, *arguments):
    settings = [f"--set={key}={value}" for key, value in machine.settings().items()]
    return CliRunner().invoke(main, ["driver", "gpu", "--inspect", "--node-name", "worker", *settings, *arguments])


def test_inspect_prints_devices_and_what_is_left_out(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 2)
    (machine.root / "host/dev/nvidia1").unlink()
    (machine.state / "proc/devices").write_text("Character devices:\n\nBlock devices:\n")
    result = inspect(machine)
    header, row, left_out = result.stdout.splitlines()
    assert header.split() == ["DEVICE", "POOL", "SHARED", "CAPACITY", "ATTRIBUTES"]
    assert row.split()[:4] == ["gpu-0", "worker", "no", "memory=81559Mi"]
    assert left_out.startswith("left out: gpu-1 (0000:64:00.0, NVIDIA H100 80GB HBM3): ")
    assert left_out.endswith("nvidia1 does not exist: load the kernel module, or run nvidia-modprobe -c 1")
    result = inspect(machine, "-o", "json")
    document = json.loads(result.stdout)
    assert document["spec"]["devices"][0]["name"] == "gpu-0"
    assert result.stderr.startswith("left out: gpu-1")


def test_a_machine_without_the_vendors_driver_says_so_in_one_line(tmp_path):
    result = CliRunner().invoke(main, ["driver", "gpu", "--inspect", f"--set=driverRoot={tmp_path}"])
    expected = f"error: there is no NVIDIA driver on this machine: no libnvidia-ml.so.1 below {tmp_path}\n"
    assert (result.exit_code, result.stderr) == (2, expected)


def test_a_machine_without_the_kernel_module_says_so_in_one_line(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    (machine.state / "driver").unlink()
    result = inspect(machine)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: the kernel module of the NVIDIA driver is not loaded")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ({"ConsumableShares": "many"}, "ConsumableShares is 'many'; give disabled, memory, unlimited"),
        ({"ignoredXids": "13,x"}, "give numbers with commas"),
        ({"dynamicMig": "true"}, "unknown field `dynamicMig`"),
    ],
)
def test_settings_that_make_no_sense_are_refused(setting, problem):
    result = CliRunner().invoke(main, ["driver", "gpu", "--inspect", *(f"--set={k}={v}" for k, v in setting.items())])
    assert result.exit_code == 2
    assert problem in result.stderr


def test_the_driver_is_imported_without_the_vendors_library():
    script = "import dray.drivers.gpu.driver, pynvml; assert pynvml.nvmlLib is None"
    subprocess.run([sys.executable, "-c", script], check=True)


COUNTED = (
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlDeviceGetGpuInstances",
    "nvmlDeviceGetMaxMigDeviceCount",
)


@pytest.mark.parametrize("function", COUNTED)
def test_a_gpu_that_tells_an_impossible_number_is_left_out(gpu_machine, function):
    machine = gpu_machine("p5.48xlarge", 1, mig=(0,))
    machine.put_instance(0, 2, profile=9, start=4, size=4, uuid="MIG-1")
    machine.tell(function, 2_000_000_000)
    _, devices, left_out = published(machine)
    assert devices == {}
    assert "the answer cannot be right: 2000000000 of them" in left_out[0]


def test_an_impossible_number_of_gpus_is_an_error(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    machine.tell("nvmlDeviceGetCount_v2", 2_000_000_000)
    with pytest.raises(DriverError, match="count GPUs: the answer cannot be right"):
        published(machine)


def test_a_profile_has_the_places_that_are_told_and_no_others(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    expected = published(machine, DynamicMIG=True)[1]
    # More than there are, or with an error as functions have it that need a larger buffer.
    machine.tell("nvmlDeviceGetGpuInstancePossiblePlacements_v2", 20)
    (machine.state / "refuses_sizes").touch()
    assert published(machine, DynamicMIG=True)[1] == expected


def test_two_gpus_with_one_uuid_or_one_minor_number_are_not_both_published(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 3)
    facts = machine.read("facts", 1)
    machine.write("facts", facts.replace(machine.gpus[1].uuid, machine.gpus[0].uuid), 1)
    machine.write("facts", machine.read("facts", 2).replace("minor 2", "minor 0"), 2)
    _, devices, left_out = published(machine)
    assert list(devices) == ["gpu-0"]
    assert sorted(left_out, reverse=True) == [
        f"gpu-1: it states UUID {machine.gpus[0].uuid}, as gpu-0 does",
        f"gpu-0 ({machine.gpus[2].uuid}): its minor number belongs to GPU {machine.gpus[0].uuid} now",
    ]
