"""Devices of four drivers side by side: GPU, NIC and exclusive CPUs on one PCIe root or NUMA node."""

from collections import Counter

from .rehearsed import EXAMPLES, rehearsing

ROOT, NUMA = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"


def root_of(device):
    return device["attributes"][ROOT]["string"]


async def test_eight_pods_fill_a_machine_and_a_ninth_is_told_why(tmp_path):
    async with rehearsing(tmp_path, EXAMPLES / "alignment" / "machines.yaml") as here:
        await here.apply("alignment/one-root.yaml")
        roots = Counter()
        for pod in await here.running(8, app="trainer"):
            held = await here.devices(pod)
            ((gpu,), (nic,), (cpus,)) = held["gpu"], held["nic"], held["cpu"]
            assert root_of(gpu) == root_of(nic)
            assert root_of(gpu) in cpus["attributes"][ROOT]["strings"]
            assert gpu["attributes"][NUMA] == nic["attributes"][NUMA] == cpus["attributes"][NUMA]
            roots[root_of(gpu)] += 1
        assert len(roots) == 8
        assert set(roots.values()) == {1}
        ninth, message = await here.refused(app="trainer")
        assert "0/1 nodes are available: 1 cannot allocate all claims" in message
        assert "gpu: needs 1, 0 available (8 in use by default/trainer-" in message
        told = await here.dray("explain", f"pod/{ninth['metadata']['name']}")
        assert "would fit if freed: default/trainer-" in told
        assert "request gpu: needs 1, 0 available" in told
        assert "request nic: needs 1, 24 available" in told


async def test_by_numa_node_and_by_attributes_that_are_derived(tmp_path):
    async with rehearsing(tmp_path, "p5.48xlarge=1") as here:
        await here.apply("alignment/one-numa-node.yaml")
        await here.apply("alignment/derived.yaml")
        for pod in await here.running(2):
            held = await here.devices(pod)
            (nic,), (cpus,) = held["nic"], held["cpu"]
            assert nic["attributes"][NUMA] == cpus["attributes"][NUMA]
            if "gpu" in held:
                assert root_of(held["gpu"][0]) == root_of(nic)


async def test_across_the_claims_of_a_pod(tmp_path):
    async with rehearsing(tmp_path, "p5.48xlarge=1") as here:
        await here.apply("alignment/across-claims.yaml")
        roots = set()
        for pod in await here.running(8, app="several-claims"):
            held = await here.devices(pod)
            ((gpu,), (nic,), (cpus,)) = held["gpu"], held["nic"], held["cpu"]
            assert root_of(gpu) == root_of(nic)
            assert gpu["attributes"][NUMA] == cpus["attributes"][NUMA]
            roots.add(root_of(gpu))
        assert len(roots) == 8
        _, message = await here.refused(app="several-claims")
        assert "gpu: needs 1, 0 available" in message
