"""`dray topology` of machines that fleets describe, in files and in a cluster."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from dray.cli import main
from dray.drivers.devices.classes import device_classes
from dray.fleet.choice import choose
from dray.fleet.pools import pools_of, slice_of
from dray.testing import objects
from tests.fleet.rehearsed import EXAMPLES, rehearsing

SVG = "{http://www.w3.org/2000/svg}"
PART = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: part}
spec:
  devices:
    requests:
    - name: part
      exactly:
        deviceClassName: mig.nvidia.com
        selectors: [{cel: {expression: "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"}}]
"""


@pytest.fixture
def machines(tmp_path):
    """Writes the slices of machines into a file."""

    def write(*choices, **options):
        documents, drivers = [], set()
        for each in choose(choices).machines:
            machine = replace(each, options=msgspec.structs.replace(each.options, **options))
            documents.append(machine.node())
            for driver, contents in pools_of(machine).items():
                drivers.add(driver)
                for number, content in enumerate(contents):
                    made = slice_of(machine, driver, number, len(contents), content, {"metadata": {"uid": "u"}})
                    documents.append({**made, "metadata": {"name": made["metadata"]["name"]}})
        path = tmp_path / "machines.yaml"
        path.write_text(yaml.safe_dump_all([*documents, *device_classes(drivers)]))
        return str(path)

    return write


def test_a_tree_has_sockets_numa_nodes_roots_and_who_holds_what(run, machines):
    pods = str(EXAMPLES / "alignment" / "one-root.yaml")
    result = run("topology", "-f", machines("p5.48xlarge=1", pcie_roots=True), "-f", pods)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "node p5-48xlarge-0: 42 devices, 24 free, 16 allocated, 2 shared"
    assert lines[1:3] == ["├─ socket 0", "│  └─ NUMA node 0: 21 devices, 12 free, 8 allocated, 1 shared"]
    assert "cpudevnuma000 (96 CPUs): shared: 48 of 96 dra.cpu/cpu by default/trainer-" in lines[3]
    at = lines.index("│     ├─ pci0000:55")
    assert lines[at + 1] == (
        "│     │  ├─ gpu-1 (NVIDIA H100 80GB HBM3): allocated by default/trainer-1-devices of trainer-1"
    )
    assert lines[at + 3] == "│     │  ├─ pci-0000-61-00-0 (Elastic Fabric Adapter (EFA)): free"


def test_partitions_are_below_their_gpu(run, machines, tmp_path):
    (tmp_path / "part.yaml").write_text(PART)
    lines = run(
        "topology", "-f", machines("a3-highgpu-1g:mig=1"), "-f", str(tmp_path / "part.yaml")
    ).stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if "gpu-0 (NVIDIA H100 80GB HBM3): blocked" in line)
    assert lines[at + 1].endswith("gpu-0-mig-1g10gb-19-0: allocated by default/part")
    assert "partitions that can be made, one at a time: 6 × 1g.10gb" in lines[at + 2]


def test_many_devices_of_a_kind_are_one_line_and_links_are_named(run, machines):
    told = run("topology", "-f", machines("gb200-nvl72-tray=1", cpus="individual")).stdout
    assert "72 × dra.cpu (cpudev000 … cpudev071): free" in told
    assert "NVLink domain over several nodes: gpu-0, gpu-1, gpu-2, gpu-3" in told


def test_claims_of_a_pod_that_are_aligned_are_so_in_files_too(run, machines):
    pods = str(EXAMPLES / "alignment" / "across-claims.yaml")
    lines = run("topology", "-f", machines("p5.48xlarge=1"), "-f", pods).stdout.splitlines()
    for root in (number for number, line in enumerate(lines) if line.endswith(("pci0000:44", "pci0000:bb"))):
        assert len({line.rpartition(" of ")[2] for line in lines[root + 1 : root + 3]}) == 1


def test_json_has_places_and_devices(run, machines):
    [node] = json.loads(run("topology", "-o", "json", "-f", machines("ct6e-standard-4t=1")).stdout)
    assert (node["kind"], node["name"]) == ("node", "ct6e-standard-4t-0")
    [numa] = node["places"][0]["places"]
    assert numa["devices"][0]["device"] == "cpudevnuma000"
    # Chips whose place is not known are below the node.
    assert [each["device"] for each in node["devices"] if each["driver"] == "tpu.google.com"] == ["0", "1", "2", "3"]


def test_svg_has_a_box_for_each_device_within_the_picture(run, machines):
    root = ElementTree.fromstring(run("topology", "-o", "svg", "-f", machines("p4d.24xlarge=1", "cpu-64=1")).stdout)
    assert root.tag == f"{SVG}svg"
    titles = [each.text for each in root.iter(f"{SVG}title")]
    assert len(titles) == 8 + 4 + 3 + 2 + 2
    assert "gpu-0 · NVIDIA A100-SXM4-40GB · free" in titles
    width, height = int(root.get("width")), int(root.get("height"))
    for x, y, rect in placed(root):
        assert x + float(rect.get("width")) <= width
        assert y + float(rect.get("height")) <= height


def placed(element, x=0.0, y=0.0):
    """Every rectangle with the place of its corner."""
    if (moved := element.get("transform")) is not None:
        left, top = moved.removeprefix("translate(").removesuffix(")").split(",")
        x, y = x + float(left), y + float(top)
    for child in element:
        if child.tag == f"{SVG}rect":
            yield x + float(child.get("x", 0)), y + float(child.get("y", 0)), child
        yield from placed(child, x, y)


def test_control_characters_in_attributes_reach_neither_the_terminal_nor_the_picture(tmp_path):
    hostile = "\x1b]0;title\x07\u202e"
    attributes = {"productName": hostile, "resource.kubernetes.io/pcieRoot": hostile}
    published = objects.resource_slice("n1", objects.device("gpu-0", attributes=attributes), nodeName="n1")
    path = tmp_path / "slice.json"
    path.write_text(json.dumps(published))
    # On a terminal; click removes colours, and with them some control characters, from what goes into a file.
    text = CliRunner().invoke(main, ["topology", "-f", str(path)], color=True)
    assert text.exit_code == 0
    assert "gpu-0 (\\x1b]0;title\\x07\\u202e): free" in text.output
    assert all(line.isprintable() for line in text.output.splitlines())
    picture = CliRunner().invoke(main, ["topology", "-f", str(path), "-o", "svg"], color=True)
    assert all(line.isprintable() for line in picture.output.splitlines())
    assert ElementTree.fromstring(picture.output).tag == f"{SVG}svg"


def test_a_node_that_is_not_there_is_told(run, machines):
    result = run("topology", "nowhere", "-f", machines("cpu-64=1"))
    assert result.exit_code == 2
    assert result.stderr == "error: no devices on node nowhere; there are: cpu-64-0\n"


async def test_of_a_cluster(tmp_path):
    async with rehearsing(tmp_path, "p5.48xlarge=1") as here:
        await here.apply("alignment/one-numa-node.yaml")
        await here.running(1)
        told = await here.dray("topology", "p5-48xlarge-0")
        assert "gpu-0 (NVIDIA H100 80GB HBM3): allocated by default/by-numa-node-devices-" in told
        assert told.count("of by-numa-node") == 3
