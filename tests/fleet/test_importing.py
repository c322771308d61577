"""A live cluster as a fleet file, and the fleet that comes of it."""

from dray.fleet.choice import choose
from dray.fleet.importing import describe, elsewhere
from dray.fleet.pools import pools_of, slice_of
from dray.testing import objects
from dray.yaml.writing import as_yaml


def cluster(choice):
    """The nodes and slices that a fleet has on a server."""
    nodes, slices = [], []
    for machine in choose([choice]).machines:
        node = machine.node()
        node["metadata"]["uid"] = machine.uuid("node")
        nodes.append(node)
        for driver, contents in pools_of(machine).items():
            for number, content in enumerate(contents):
                slices.append(slice_of(machine, driver, number, len(contents), content, node))
    return nodes, slices


def imported(nodes, slices, tmp_path):
    file = tmp_path / "fleet.yaml"
    file.write_text(as_yaml(describe(nodes, slices)))
    return choose([str(file)])


def test_machines_of_one_kind_are_one_type(tmp_path):
    nodes, slices = cluster("p5.48xlarge:mig=3,ct6e-standard-4t=2,cpu-64=1")
    documents = describe(nodes, slices)
    assert [each.get("name") for each in documents[:-1]] == ["p5.48xlarge", "ct6e-standard-4t", "cpu-64"]
    assert [each["count"] for each in documents[-1]["machines"]] == [3, 2, 1]
    chosen = imported(nodes, slices, tmp_path)
    assert len(chosen.machines) == 6


def test_the_imported_fleet_has_the_same_devices(tmp_path):
    nodes, slices = cluster("p5.48xlarge:mig=2")
    before = [each["spec"].get("devices") or each["spec"]["sharedCounters"] for each in slices]
    machines = imported(nodes, slices, tmp_path).machines
    after = [content.devices or content.shared_counters for each in machines for content in _sorted(pools_of(each))]
    assert [[each["name"] for each in found] for found in before] == [
        [each["name"] for each in found] for found in after
    ]
    # Each simulated machine has GPUs of its own, and partitions name their parent among them.
    found = [device for group in after for device in group if "attributes" in device]
    uuids = [each["attributes"]["uuid"]["string"] for each in found if "uuid" in each["attributes"]]
    parents = {each["attributes"]["parentUUID"]["string"] for each in found if "parentUUID" in each["attributes"]}
    assert len(uuids) == len(set(uuids)) == 16
    assert parents == set(uuids)


def names(found):
    return [each["name"] for each in found]


def _sorted(pools):
    order = ["gpu.nvidia.com", "dra.net", "dra.cpu"]
    return [content for driver in order for content in pools[driver]]


def test_nodes_that_differ_are_different_types_and_shared_slices_are_left_out():
    nodes = [objects.node("a", cpu="8"), objects.node("b", cpu="16")]
    shared = objects.resource_slice("everywhere", "net-0")
    documents = describe(nodes, [shared])
    assert [each.get("name") for each in documents[:-1]] == ["imported", "imported-2"]
    assert elsewhere([shared]) == ["everywhere"]
    assert describe([], []) == []
