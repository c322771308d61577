"""What is offered of a machine, and why the rest is not."""

import pytest

from dray.drivers.devices.nic import device_of
from dray.drivers.nic import pci_names
from dray.drivers.nic.discovery import Interfaces, discover, read_interfaces
from dray.drivers.nic.links import Address, Link
from dray.drivers.nic.options import NicOptions
from dray.drivers.nic.sysfs import rdma_character_devices
from tests.drivers.nic.networks import ip, make_interface
from tests.drivers.nic.trees import SysfsTree

LOOPBACK = Link(index=1, name="lo", is_loopback=True, encapsulation="loopback")


def link(index, name, **members):
    return Link(index=index, name=name, mac=f"02:00:00:00:00:{index:02x}", mtu=1500, is_up=True, state="up", **members)


@pytest.fixture
def tree(tmp_path):
    return SysfsTree(tmp_path / "sys")


def found(tree, links, addresses=None, default_routes=(), **options):
    given = NicOptions(sysfs_root=str(tree.root), **options)
    return {each.label: each for each in discover(Interfaces(links, addresses or {}, default_routes), given)}


def test_a_network_function_has_all_published_attributes(tree):
    function = tree.function("0000:8d:00.0", sriov_totalvfs="16", sriov_numvfs="4", subsystem_device="0x0042")
    tree.interface(function, "gpu0rdma0", speed="400000")
    tree.rdma(function, "mlx5_0", 0)
    addresses = {4: [Address("10.0.5.8", 24), Address("fe80::1", 64, 253), Address("fd00::8", 64)]}
    (only,) = found(tree, [link(4, "gpu0rdma0", alias="rail 0")], addresses).values()
    device = device_of(only.nic)
    assert device.name == "pci-0000-8d-00-0"
    assert device.attributes == {
        "dra.net/ifName": "gpu0rdma0",
        "dra.net/pciAddress": "0000:8d:00.0",
        "dra.net/pciVendor": "Mellanox Technologies",
        "dra.net/pciDevice": "MT2910 Family [ConnectX-7]",
        "dra.net/pciSubsystem": "0042",
        "dra.net/mac": "02:00:00:00:00:04",
        "dra.net/mtu": 1500,
        "dra.net/numaNode": 1,
        "dra.net/rdma": True,
        "dra.net/rdmaDevice": "mlx5_0",
        "dra.net/isSriovVf": False,
        "dra.net/sriov": True,
        "dra.net/sriovVfs": 4,
        "dra.net/virtual": False,
        "dra.net/ebpf": False,
        "dra.net/encapsulation": "ether",
        "dra.net/state": "up",
        "dra.net/type": "device",
        "dra.net/alias": "rail 0",
        "dra.net/speed": 400000,
        "dra.net/ipv4": "10.0.5.8/24",
        "dra.net/ipv6": "fd00::8/64",
        "resource.kubernetes.io/pcieRoot": "pci0000:8c",
        "resource.kubernetes.io/numaNode": 1,
    }


def test_virtual_functions_and_rdma_devices_without_interface(tree):
    physical = tree.function("0000:8d:00.0", sriov_totalvfs="2", sriov_numvfs="1")
    virtual = tree.function("0000:8d:00.1", device="0x101e")
    (virtual / "physfn").symlink_to(physical)
    efa = tree.function("0000:44:00.0", vendor="0x1d0f", device="0xefa2", driver="efa", numa_node="-1")
    tree.rdma(efa, "rdmap68s0", 3)
    tree.interface(physical, "eth1")
    tree.interface(virtual, "eth2")
    seen = found(tree, [link(2, "eth1"), link(3, "eth2")])
    assert seen["eth2"].nic.virtual_function
    assert not seen["eth1"].nic.virtual_function
    attributes = device_of(seen["rdmap68s0"].nic).attributes
    assert attributes["dra.net/pciDevice"] == "Elastic Fabric Adapter (EFA)"
    assert attributes["dra.net/pciVendor"].startswith("Amazon")
    assert "dra.net/ifName" not in attributes
    assert "dra.net/numaNode" not in attributes
    assert rdma_character_devices(tree.root, "rdmap68s0") == ["rdma_cm", "uverbs3", "umad3"]


def test_functions_that_the_kernel_has_no_interface_of_are_left_out(tree):
    tree.function("0000:01:00.0", driver="vfio-pci")
    tree.function("0000:02:00.0", driver="")
    tree.function("0000:03:00.0")
    tree.function("0000:04:00.0", **{"class": "0x010802"})
    assert {name: each.obstacle for name, each in found(tree, []).items()} == {
        "0000:01:00.0": "it is bound to vfio-pci, which leaves it to programs",
        "0000:02:00.0": "no kernel driver is bound to it",
        "0000:03:00.0": "it has neither an interface nor an RDMA device here",
    }


def test_what_the_machine_needs_is_never_offered(tree):
    links = [
        LOOPBACK,
        link(2, "eth0", master=3),
        link(3, "bond0", kind="bond"),
        link(4, "bond0.7", kind="vlan", link=3),
        link(5, "eth1"),
        link(6, "eth2", master=7),
        link(7, "br0", kind="bridge"),
        link(8, "eth3"),
        link(9, "macvlan0", kind="macvlan", link=8),
        link(10, "docker0", kind="bridge"),
        link(11, "cilium_net", kind="dummy"),
        link(12, "veth1", kind="veth", link=9, link_elsewhere=True),
        link(13, "dummy0", kind="dummy"),
        link(14, "br1", kind="bridge"),
    ]
    addresses = {5: [Address("192.0.2.7", 24)]}
    seen = found(tree, links, addresses, default_routes={4}, node_addresses="192.0.2.7")
    assert {name: each.obstacle for name, each in seen.items()} == {
        "lo": "it is a loopback interface",
        "eth0": "it belongs to an interface that a default route leads over",
        "bond0": "it belongs to an interface that a default route leads over",
        "bond0.7": "a default route leads over it",
        "eth1": "it has the address 192.0.2.7 of the node",
        "eth2": "it belongs to br0",
        "br0": "it carries eth2",
        "eth3": "it carries macvlan0",
        "macvlan0": "",
        "docker0": "an interface of type bridge cannot leave the network of the host",
        "cilium_net": "it is part of the network of containers",
        "veth1": "interfaces of type veth are left out (excludeTypes)",
        "dummy0": "",
        "br1": "an interface of type bridge cannot leave the network of the host",
    }


def test_options_choose_interfaces_by_name(tree):
    links = [link(2, "rdma0"), link(3, "rdma1"), link(4, "eth0")]
    seen = found(tree, links, interfaces="rdma*", exclude_interfaces="rdma1")
    assert [name for name, each in seen.items() if not each.obstacle] == ["rdma0"]


def test_ip_over_infiniband_stays_on_the_host_if_it_is_told_to(tree):
    function = tree.function("0000:8d:00.0")
    tree.interface(function, "ib0")
    tree.rdma(function, "mlx5_0", 0)
    links = [link(2, "ib0", encapsulation="infiniband")]
    assert found(tree, links)["ib0"].nic.encapsulation == "infiniband"
    seen = found(tree, links, move_ib_interfaces=False)
    assert seen["mlx5_0"].nic.interface == ""


def test_many_addresses_fit_into_an_attribute(tree):
    addresses = {2: [Address(f"10.0.0.{number}", 24) for number in range(1, 40)]}
    (only,) = found(tree, [link(2, "kube-ipvs0", kind="dummy")], addresses).values()
    text = device_of(only.nic).attributes["dra.net/ipv4"]
    assert len(text) <= 64
    assert text.startswith("10.0.0.1/24,10.0.0.10/24,")


def test_names_of_devices_are_labels(tree):
    seen = found(tree, [link(2, "Eth_0"), link(3, "eth1")])
    assert seen["eth1"].nic.name == "eth1"
    assert seen["Eth_0"].nic.name == "net-iv2gqxzq"


def test_the_database_of_the_machine_names_vendors_and_devices(tmp_path):
    file = tmp_path / "pci.ids"
    file.write_text(
        "# comment\n15b3  Some Vendor\n\t1021  Some Card\n\t\t15b3 0001  Sub\n8086  Other\n\t1021  Not this\n"
    )
    assert pci_names.names("15b3", "1021", [file]) == ("Some Vendor", "Some Card")
    assert pci_names.names("8086", "1021", [file]) == ("Other", "Not this")
    assert pci_names.names("ffff", "1021", [file]) == ("", "")


def test_the_kernel_tells_of_real_interfaces(host_network, tree):
    make_interface("wan0", number=2)
    make_interface("nic0")
    ip("route", "add", "default", "via", "10.2.2.1", "dev", "wan0")
    options = NicOptions(sysfs_root=str(tree.root), exclude_types="", exclude_interfaces="*p")
    seen = {each.label: each for each in discover(read_interfaces(), options)}
    assert seen["wan0"].obstacle == "a default route leads over it"
    nic = seen["nic0"].nic
    assert (nic.type, nic.mtu, nic.alias, nic.ipv4[-1], nic.virtual) == ("veth", 1480, "port nic0", "10.1.2.3/24", True)
