"""Templates of machine types: what autoscalers are told is what a simulated machine publishes."""

import pytest

from dray.api.catalogue import built_in
from dray.api.rules import Rules
from dray.api.validation import validate_create
from dray.fleet.catalogue import library
from dray.fleet.choice import choose
from dray.fleet.templates import capacity_annotations, karpenter_of, slices_of
from tests.fleet.rehearsal import Rehearsal

CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"


def machine(text):
    return choose([text]).machines[0]


async def test_slices_are_those_of_a_simulated_machine(virtual_time):
    async with Rehearsal("a3-highgpu-1g:mig=1").going() as cluster:
        await cluster.simulation.publication.settled()
        stored = {each["metadata"]["name"]: each["spec"] for each in await cluster.list("ResourceSlice")}
    shown = slices_of(machine("a3-highgpu-1g:mig"))
    assert {each["metadata"]["name"]: each["spec"] for each in shown} == stored


@pytest.mark.parametrize("name", library().machine_types)
def test_every_machine_type_has_valid_slices_and_templates(name):
    for each in slices_of(machine(name)):
        assert validate_create(each, built_in("resource.k8s.io/v1", "ResourceSlice").entry, Rules()) == []
    annotations = capacity_annotations(machine(name)).documents[0]["metadata"]["annotations"]
    assert annotations[f"{CAPACITY}/cpu"] == str(machine(name).type.cpus)
    assert all(isinstance(value, str) for value in annotations.values())
    assert karpenter_of(machine(name)).documents[0]["kind"] == "NodePool"


def test_cluster_api_annotations_count_whole_gpus_only():
    made = capacity_annotations(machine("p5.48xlarge"))
    annotations = made.documents[0]["metadata"]["annotations"]
    assert annotations[f"{CAPACITY}/dra-driver"] == "gpu.nvidia.com"
    assert annotations[f"{CAPACITY}/gpu-count"] == "8"
    assert "node.kubernetes.io/instance-type=p5.48xlarge" in annotations[f"{CAPACITY}/labels"].split(",")
    assert "hostname" not in annotations[f"{CAPACITY}/labels"]
    assert made.notes[0].startswith("32 devices of dra.net")
    for mode in ("mig", "shared-memory"):
        cut = capacity_annotations(machine(f"a2-highgpu-1g:{mode}"))
        assert f"{CAPACITY}/gpu-count" not in cut.documents[0]["metadata"]["annotations"]
        assert "of gpu.nvidia.com" in cut.notes[0]


def test_karpenter_gets_devices_without_what_differs_between_machines():
    pool, *configs = karpenter_of(machine("p5.48xlarge")).documents
    assert {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge"]} in pool["spec"][
        "template"
    ]["spec"]["requirements"]
    gpus = next(each for each in configs if each["spec"]["driver"] == "gpu.nvidia.com")
    devices = [device for each in gpus["spec"]["pools"][0]["resourceSlices"] for device in each["devices"]]
    assert [each["name"] for each in devices] == [f"gpu-{number}" for number in range(8)]
    assert devices[0]["attributes"]["productName"] == {"string": "NVIDIA H100 80GB HBM3"}
    assert "uuid" not in devices[0]["attributes"]
    assert devices[0]["attributes"]["resource.kubernetes.io/pcieRoot"]


def test_karpenter_gets_no_partitions_and_is_told_so():
    made = karpenter_of(machine("a2-highgpu-1g:mig"))
    assert not any(each["spec"].get("driver") == "gpu.nvidia.com" for each in made.documents)
    assert any(note.endswith("partitions of gpu.nvidia.com: a DRAConfig has no shared counters") for note in made.notes)


def test_extended_resources_become_a_node_overlay(tmp_path):
    file = tmp_path / "box.yaml"
    file.write_text(
        "apiVersion: fleet.dray.dev/v1alpha1\nkind: MachineType\nname: box\ncpus: 8\nmemory: 32Gi\n"
        'allocatable: {example.com/fuse: "4"}\nlabels: {team: a, node.kubernetes.io/own: b}\n'
    )
    pool, overlay = karpenter_of(choose([str(file), "box=1"]).machines[0]).documents[:2]
    assert overlay["kind"] == "NodeOverlay"
    assert overlay["spec"]["capacity"] == {"example.com/fuse": "4"}
    assert pool["spec"]["template"]["metadata"]["labels"] == {"team": "a"}


def test_extended_resources_become_the_type_of_gpus_of_cluster_api(tmp_path):
    file = tmp_path / "box.yaml"
    file.write_text(
        "apiVersion: fleet.dray.dev/v1alpha1\nkind: MachineType\nname: box\ncpus: 8\nmemory: 32Gi\n"
        'allocatable: {example.com/fuse: "4", nvidia.com/gpu: "2"}\n'
    )
    made = capacity_annotations(choose([str(file), "box=1"]).machines[0])
    annotations = made.documents[0]["metadata"]["annotations"]
    assert annotations[f"{CAPACITY}/gpu-type"] == "nvidia.com/gpu"
    assert annotations[f"{CAPACITY}/gpu-count"] == "2"
    assert f"{CAPACITY}/dra-driver" not in annotations
    assert "resource example.com/fuse: annotations have one resource of GPUs, or a driver" in made.notes
