"""TPU chips and blocks of them as devices, and what processes are told: compared with the published driver's rules."""

import pytest

from dray.drivers.devices.tpu import TpuChip, TpuHost, chip_names, devices_of, partitioned
from dray.drivers.devices.tpu_environment import environment


def host(accelerator="tpu-v6e-slice", topology="2x4", chips=8, **members):
    named = tuple(TpuChip(name=each) for each in chip_names(accelerator, chips))
    return TpuHost(node="n", accelerator=accelerator, topology=topology, chips=named, **members)


def test_a_chip_has_the_attributes_of_the_published_driver():
    first, second, *_ = devices_of(host())
    described = dict(second.attributes)
    assert described.pop("uuid") != first.attributes["uuid"]
    assert described == {
        "index": 1,
        "tpuGen": "v6e",
        "brand": "Google",
        "accelerator": "tpu-v6e-slice",
        "chipCount": 8,
        "topology": "2x4",
    }


def test_all_chips_of_a_node_have_one_uuid_if_it_is_wanted():
    assert len({each.attributes["uuid"] for each in devices_of(host(uuids="node"))}) == 1


def test_blocks_are_aligned_and_take_the_counters_of_their_chips():
    made = {each.name: each for each in partitioned(host())}
    assert list(made) == [
        "slice-2x4-0",
        *("slice-2x2-0", "slice-2x2-4"),
        *("slice-1x2-0", "slice-1x2-2", "slice-1x2-4", "slice-1x2-6"),
        *map(str, range(8)),
    ]
    assert made["slice-2x2-4"].consumes_counters == {"chips": {f"chip-{each}": 1 for each in (4, 5, 6, 7)}}
    assert made["slice-2x2-4"].attributes["chipCount"] == 4
    assert made["slice-2x2-4"].attributes["type"] == "slice"
    assert made["3"].attributes["type"] == "chip"
    assert "slice-2x2x1-0" in [each.name for each in partitioned(host("tpu-v5p-slice", "2x2x1", 4))]


def test_a_block_has_the_place_that_its_chips_share():
    places = [TpuChip(name=str(each), pcie_root=f"pci0000:{each // 2:02}", numa_node=0) for each in range(4)]
    made = TpuHost(node="n", accelerator="tpu-v6e-slice", topology="2x2", chips=tuple(places))
    found = {each.name: each.attributes for each in partitioned(made)}
    assert found["slice-1x2-2"]["resource.kubernetes.io/pcieRoot"] == "pci0000:01"
    assert "resource.kubernetes.io/pcieRoot" not in found["slice-2x2-0"]
    assert found["slice-2x2-0"]["resource.kubernetes.io/numaNode"] == 0


@pytest.mark.parametrize(
    ("accelerator", "topology", "chips", "expected"),
    [
        ("tpu-v6e-slice", "2x4", 8, ("v6e-8", "2,4,1", "1,1,1", "false,false,false", "0")),
        ("tpu-v6e-slice", "4x4", 4, ("v6e-16", "2,2,1", "2,2,1", "false,false,false", None)),
        ("tpu-v5-lite-podslice", "16x16", 4, ("v5litepod-256", "2,2,1", "8,8,1", "true,true,false", None)),
        ("tpu-v5p-slice", "2x2x1", 4, ("v5p-8", "2,2,1", "1,1,1", "false,false,false", "0")),
        ("tpu-v4-podslice", "4x4x8", 4, ("v4-256", "2,2,1", "2,2,8", "true,true,true", None)),
        ("tpu-v6e-slice", "1x1", 1, ("v6e-1", "1,1,1", "1,1,1", "false,false,false", "0")),
        ("tpu-v5-lite-device", "2x4", 8, ("v5lite-8", None, None, None, "0")),
    ],
)
def test_a_process_with_all_chips_is_told_the_slice(accelerator, topology, chips, expected):
    made = host(accelerator, topology, chips)
    told = environment(made, made.numbers)
    asked = ("ACCELERATOR_TYPE", "CHIPS_PER_HOST_BOUNDS", "HOST_BOUNDS", "TOPOLOGY_WRAP", "WORKER_ID")
    assert tuple(told.get(f"TPU_{each}") for each in asked) == expected
    assert told.get("WRAP") == told.get("TPU_TOPOLOGY_WRAP")
    assert told.get("HOST_BOUNDS") == told.get("TPU_HOST_BOUNDS")
    assert told.get("ALT") == (None if expected[1] is None else "false")
    assert told["TPU_TOPOLOGY"] == topology
    assert ("TPU_VISIBLE_CHIPS" in told) is False


def test_large_slices_of_v4_route_around_broken_links_unless_told_otherwise():
    made = host("tpu-v4-podslice", "4x4x4", 4)
    assert environment(made, made.numbers)["ENABLE_ICI_RESILIENCY"] == "true"
    off = host("tpu-v4-podslice", "4x4x4", 4, ici_resiliency="False")
    assert environment(off, off.numbers)["ENABLE_ICI_RESILIENCY"] == "false"
    assert "ENABLE_ICI_RESILIENCY" not in environment(host(), host().numbers)


def test_a_process_with_a_block_is_told_the_block():
    told = environment(host(), [4, 5, 6, 7])
    assert told["TPU_TOPOLOGY"] == "2x2"
    assert told["TPU_ACCELERATOR_TYPE"] == "v6e-4"
    assert told["TPU_VISIBLE_CHIPS"] == "4,5,6,7"
    assert told["TPU_CHIPS_PER_PROCESS_BOUNDS"] == told["TPU_CHIPS_PER_HOST_BOUNDS"] == "2,2,1"
    assert told["TPU_PROCESS_BOUNDS"] == told["TPU_HOST_BOUNDS"] == "1,1,1"
    assert told["TPU_WORKER_HOSTNAMES"] == "localhost"
