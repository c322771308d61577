"""Utilization and memory of GPUs, as NVML tells them."""

from dray.api.device_utilization import reports_of

from .world import GPU, gpu_world

PROMPT = {"utilization_seconds": 0.05, "utilization_write_seconds": 0.0}
NOT_SUPPORTED, NO_PERMISSION = 3, 4


async def reported(world, name):
    claim = await world.cluster.get("ResourceClaim", name)
    return {place[2]: (report.percent, report.memory_used) for place, report in reports_of(claim)}


async def test_claim_and_metrics_show_what_nvml_tells(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 2)
    machine.write("utilization", 63, 0)
    machine.write("memory_used_mib", 2048, 0)
    async with gpu_world(machine) as world, world.driver(options=PROMPT) as runner:
        await world.start("busy", "gpu-0")

        async def shown():
            return await reported(world, "busy") == {"gpu-0": (63, 2 << 30)}

        await world.kubelet.eventually(shown, "the claim shows the utilization")
        labels = {"driver_name": GPU, "pool": world.kubelet.node_name, "device": "gpu-0"}
        assert runner.metrics.registry.get_sample_value("dray_device_utilization_ratio", labels) == 0.63
        claim = await world.cluster.get("ResourceClaim", "busy")
        assert claim["status"]["devices"][0]["data"]["uuid"] == machine.gpus[0].uuid


async def test_what_a_gpu_does_not_tell_is_left_out(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 2)
    machine.write("memory_used_mib", 10, 0)
    machine.write("utilization", 40, 1)
    machine.fail("nvmlDeviceGetUtilizationRates", NOT_SUPPORTED, 0)
    async with gpu_world(machine) as world, world.driver(options=PROMPT):
        await world.start("both", "gpu-0", "gpu-1")

        async def shown():
            return await reported(world, "both") == {"gpu-0": (None, 10 << 20), "gpu-1": (40, 0)}

        await world.kubelet.eventually(shown, "gpu-0 has memory alone")


async def test_without_a_lasting_session_nvml_is_not_asked(gpu_machine):
    """Opening a session may initialize all GPUs, which takes seconds."""
    machine = gpu_machine("p5.48xlarge", 1)
    async with gpu_world(machine) as world, world.driver(NVMLDeviceHealthCheck=False) as runner:
        machine.called()
        await runner.utilization.report()
        assert not [each.name for each in (machine.state / "called").iterdir() if "Utilization" in each.name]


async def test_a_gpu_that_may_not_be_asked_tells_its_memory(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    machine.write("memory_used_mib", 10, 0)
    machine.fail("nvmlDeviceGetUtilizationRates", NO_PERMISSION)
    async with gpu_world(machine) as world, world.driver(options=PROMPT):
        await world.start("user", "gpu-0")

        async def shown():
            return await reported(world, "user") == {"gpu-0": (None, 10 << 20)}

        await world.kubelet.eventually(shown, "the memory is told")


async def test_a_gpu_that_hangs_keeps_no_other_from_telling(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 2)
    machine.write("utilization", 40, 1)
    machine.hang("nvmlDeviceGetUtilizationRates", 5, 0)
    async with gpu_world(machine) as world, world.driver(options=PROMPT, nvmlSeconds=0.3):
        await world.start("both", "gpu-0", "gpu-1")

        async def shown():
            return await reported(world, "both") == {"gpu-1": (40, 0)}

        await world.kubelet.eventually(shown, "gpu-1 is shown")


async def test_partitions_tell_their_memory(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    machine.write("memory_used_mib", 64, 0)
    device = "gpu-0-mig-1g10gb-19-6"
    async with gpu_world(machine) as world, world.driver(options=PROMPT, DynamicMIG=True):
        await world.start("part", device)

        async def shown():
            return await reported(world, "part") == {device: (None, 64 << 20)}

        await world.kubelet.eventually(shown, "the partition tells its memory")
