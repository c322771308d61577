import pytest

from dray.drivers.tpu.hardware import find_chips

from .hosts import link, put, write_function, write_host


def found(root):
    return find_chips(root / "sys", root / "dev")


@pytest.mark.parametrize(
    ("generation", "names", "accelerator"),
    [
        ("v3", ["accel0", "accel1"], "tpu-v3-device"),
        ("v4", ["accel0", "accel1"], "tpu-v4-podslice"),
        ("v5e", ["0", "1"], "tpu-v5-lite-podslice"),
        ("v5p", ["0", "1"], "tpu-v5p-slice"),
        ("v6e", ["0", "1"], "tpu-v6e-slice"),
    ],
)
def test_chips_are_found_by_pci_and_device_file(tmp_path, generation, names, accelerator):
    write_host(tmp_path, generation, chips=2)
    hardware = found(tmp_path)
    assert [chip.name for chip in hardware.chips] == names
    assert hardware.accelerators[0] == accelerator
    assert [(each.address, each.root, each.numa_node) for each in hardware.functions] == [
        ("0000:00:04.0", "pci0000:00", 0),
        ("0000:00:05.0", "pci0000:00", 1),
    ]


def test_groups_are_in_the_order_of_their_numbers(tmp_path):
    write_host(tmp_path, chips=4, first_group=8)
    assert [chip.name for chip in found(tmp_path).chips] == ["8", "9", "10", "11"]


def test_other_devices_of_google_and_other_groups_are_no_chips(tmp_path):
    write_host(tmp_path, chips=1)
    nic = write_function(tmp_path, "0000:00:01.0", device="0x0042")
    link(nic / "iommu_group", tmp_path / "sys" / "kernel" / "iommu_groups" / "7")
    other = write_function(tmp_path, "0000:00:02.0", vendor="0x10de", device="0x2330")
    link(other / "iommu_group", tmp_path / "sys" / "kernel" / "iommu_groups" / "8")
    for name in ("7", "8"):
        put(tmp_path / "dev" / "vfio" / name, "")
    assert [chip.name for chip in found(tmp_path).chips] == ["0"]


def test_an_accel_file_of_another_vendor_is_no_chip(tmp_path):
    habana = write_function(tmp_path, "0000:00:02.0", vendor="0x1da3", device="0x1020")
    put(tmp_path / "dev" / "accel0", "")
    link(tmp_path / "sys" / "class" / "accel" / "accel0" / "device", habana)
    assert found(tmp_path).chips == ()


def test_chips_without_a_driver_are_named(tmp_path):
    write_function(tmp_path, "0000:00:04.0")
    assert "TPU chips at 0000:00:04.0 have neither" in found(tmp_path).problem


def test_v2_shares_an_id_with_v3_and_is_not_known(tmp_path):
    directory = write_function(tmp_path, "0000:00:04.0", device="0x0027", subsystem="0x004e")
    put(tmp_path / "dev" / "accel0", "")
    link(tmp_path / "sys" / "class" / "accel" / "accel0" / "device", directory)
    assert len(found(tmp_path).chips) == 1
    assert found(tmp_path).accelerators == ()
