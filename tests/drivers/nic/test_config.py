"""Configuration of claims: what is taken, and what is refused with which place."""

import pytest

from dray.driver.configs import decode
from dray.driver.errors import InvalidConfig
from dray.drivers.nic.config import NetworkConfig, Vrf


def parsed(**parameters):
    return decode(parameters, [NetworkConfig], "here")


def test_the_configuration_of_the_documentation_is_taken():
    config = parsed(
        interface={
            "name": "net1",
            "addresses": ["10.0.0.18/16", "fd00::1/64"],
            "mtu": 8896,
            "hardwareAddr": "02:00:00:00:00:01",
            "gsoIPv4MaxSize": 65536,
            "disableEbpfPrograms": True,
            "arpIgnore": 8,
            "vrf": {"name": "blue"},
        },
        routes=[
            {"destination": "10.0.0.0/8", "gateway": "10.0.0.1"},
            {"destination": "10.0.0.1/32", "scope": 253},
        ],
        neighbors=[{"destination": "10.0.0.1", "hardwareAddr": "02:00:00:00:00:02"}],
        ethtool={"features": {"rx-gro": False}, "privateFlags": {"x": True}},
    )
    assert config.interface.sizes() == {"gsoIPv4MaxSize": 65536}
    assert (
        config.interface.vrf.routing_table()
        == parsed(interface={"vrf": {"name": "blue"}}).interface.vrf.routing_table()
    )
    assert not config.is_empty


def test_interfaces_of_one_vrf_share_a_table_unless_they_name_one():
    assert 100 <= Vrf(name="test-vrf").routing_table() < 1100
    assert Vrf(name="test-vrf").routing_table() != Vrf(name="other").routing_table()
    assert Vrf(name="test-vrf", table=42).routing_table() == 42


@pytest.mark.parametrize(
    ("parameters", "place"),
    [
        ({"interface": {"name": "much-too-long-a-name"}}, "interface.name: .* longer than 15"),
        ({"interface": {"name": "a/b"}}, "interface.name"),
        ({"interface": {"addresses": ["10.0.0.1"]}}, r"interface.addresses\[0\]: .* prefix length"),
        ({"interface": {"name": "all"}}, "interface.name: 'all' stands for all interfaces"),
        ({"interface": {"addresses": ["10.0.0.1/255.255.255.0"]}}, r"interface.addresses\[0\]"),
        ({"interface": {"addresses": ["fe80::1%eth0/64"]}}, r"interface.addresses\[0\]"),
        ({"interface": {"mtu": 1 << 31}}, "interface.mtu: .* is more than"),
        ({"interface": {"vrf": {"name": "v", "table": 1 << 32}}}, "interface.vrf.table: must be from 0"),
        ({"routes": [{"destination": "10.0.0.0/8", "gateway": "10.0.0.1", "table": 1 << 40}]}, r"routes\[0\].table"),
        ({"rules": [{"source": "10.0.0.0/255.0.0.0"}]}, r"rules\[0\].source"),
        ({"rules": [{"table": 1 << 32}]}, r"rules\[0\].table: must be from 0 to 4294967295"),
        ({"interface": {"addresses": ["10.0.0.1/33"]}}, r"interface.addresses\[0\]"),
        ({"interface": {"addresses": ["10.0.0.1/24"], "dhcp": True}}, "dhcp and addresses exclude each other"),
        ({"interface": {"mtu": 67}}, "interface.mtu: 67 is less than 68"),
        ({"interface": {"hardwareAddr": "02:00"}}, "interface.hardwareAddr"),
        ({"interface": {"gsoMaxSize": 0}}, "interface.gsoMaxSize"),
        ({"interface": {"arpIgnore": 4}}, "interface.arpIgnore"),
        ({"interface": {"arpAnnounce": 3}}, "interface.arpAnnounce"),
        ({"interface": {"vrf": {}}}, "interface.vrf.name"),
        ({"interface": {"vrf": {"name": "v", "table": 254}}}, "interface.vrf.table: 254 is reserved"),
        ({"interface": {"speed": 3}}, "speed"),
        ({"routes": [{"gateway": "10.0.0.1"}]}, r"routes\[0\].destination: must not be empty"),
        ({"routes": [{"destination": "10.0.0.0/8"}]}, r"routes\[0\].gateway: must be given"),
        ({"routes": [{"destination": "10.0.0.0/8", "gateway": "fd00::1"}]}, "of another family"),
        ({"routes": [{"destination": "10.0.0.0/8", "gateway": "10.0.0.1", "scope": 7}]}, r"routes\[0\].scope"),
        ({"rules": [{"priority": 32768}]}, r"rules\[0\].priority"),
        ({"rules": [{"source": "10.0.0.0/8", "destination": "fd00::/8"}]}, r"rules\[0\]: .* different families"),
        ({"rules": [{"table": 5}], "interface": {"vrf": {"name": "v"}}}, "rules: a VRF takes their place"),
        ({"neighbors": [{"destination": "10.0.0.1"}]}, r"neighbors\[0\].hardwareAddr"),
        ({"profile": "fast"}, "profile: this driver has no profiles"),
        ({"macvlan": {}}, "macvlan"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_place(parameters, place):
    with pytest.raises(InvalidConfig, match=place):
        parsed(**parameters)
