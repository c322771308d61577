"""Whatever `dray lint` accepts of a configuration, the kernel takes; what it never takes is found before."""

import pytest

from dray.drivers.nic.attachment import AttachmentError
from dray.drivers.opaque_configs import problem_of
from tests.drivers.nic.networks import ip, make_interface, seen
from tests.drivers.nic.test_attach import Desk

OWN = ["10.0.0.2/24", "fd00::2/64"]
ADDRESSES = [
    *("0.0.0.0/0", "127.0.0.1/8", "224.0.0.1/4", "255.255.255.255/32", "10.0.0.0/24", "10.0.0.255/24", "10.0.0.2/0"),
    *("fd00::1/64", "::/64", "::1/128", "ff02::1/64", "fe80::1/64", "::ffff:10.0.0.1/120", "fd00::1/0"),
    *("240.0.0.1/8", "169.254.1.1/16", "010.0.0.2/24", "10.0.0.2/024"),
]
HARDWARE = [
    *("02:00:00:00:00:01", "02-00-00-00-00-01", "02:00-00:00:00:01", "AA:bb:CC:00:00:01"),
    *("01:00:00:00:00:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00", "02:00:00:00:00:01:02:03", ":".join(["02"] * 20)),
]
NET, NET6, BY, BY6 = "10.1.0.0/16", "fd01::/64", "10.0.0.1", "fd00::1"
ROUTES = [
    {"destination": NET, "gateway": BY},
    {"destination": "10.1.0.5/16", "gateway": BY},
    {"destination": "fd01::5/64", "gateway": BY6},
    {"destination": "0.0.0.0/0", "gateway": BY},
    {"destination": "10.0.0.1/0", "gateway": BY},
    {"destination": "::/0", "gateway": BY6},
    {"destination": NET, "scope": 253},
    {"destination": NET, "gateway": BY, "scope": 253},
    *({"destination": NET, "gateway": by} for by in ("192.168.0.1", "10.0.0.2", "0.0.0.0", "224.0.0.1", "10.0.0.255")),
    *({"destination": NET6, "gateway": by} for by in ("::", "::1", "ff02::1", "fe80::1", "fd09::1")),
    {"destination": NET, "gateway": BY, "source": "10.0.0.2"},
    {"destination": NET6, "gateway": BY6, "source": "fd00::2"},
    {"destination": NET6, "scope": 253, "source": "fd00:0::2"},
    *({"destination": NET, "gateway": BY, "table": table} for table in (0, 100, 253, 255, 2**32 - 1)),
    *({"destination": to, "gateway": BY} for to in ("127.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4", "0.0.0.0/8")),
]
RULES = [
    {},
    *({"source": source, "table": 100} for source in ("10.0.0.0/24", "10.0.0.5/24", "10.0.0.5", "fd00::/64")),
    *({"destination": to, "table": 100} for to in ("0.0.0.0/0", "::/0", "10.1.0.0/16")),
    *({"source": source, "table": 100} for source in ("0.0.0.0/0", "::/0")),
    *({"source": source} for source in ("10.0.0.0/24", "fd00::/64")),
    {"priority": 32767, "table": 2**32 - 1},
]
CONFIGS = {
    "addresses": [{"interface": {"addresses": [address]}} for address in ADDRESSES]
    + [{"interface": {"addresses": ["10.0.0.2/24", "10.0.0.2/24", "10.0.0.2/16"]}}],
    "links": [{"interface": {"hardwareAddr": address}} for address in HARDWARE]
    + [{"interface": {"mtu": mtu, "addresses": OWN[:1]}} for mtu in (68, 1279, 1500, 9000)]
    + [{"interface": {"mtu": mtu, "addresses": OWN}} for mtu in (1279, 1280)]
    + [{"interface": {"mtu": 1000, "addresses": OWN[:1]}, "routes": [{"destination": "fd01::/64", "scope": 253}]}]
    + [{"interface": {"name": name}} for name in ("lo", "-a", "a.b", "1", ".a", "a" * 15)]
    + [{"interface": {"vrf": {"name": name}}} for name in ("lo", "net1")],
    "sizes": [
        {"interface": {name: size}}
        for name in ("gsoMaxSize", "groMaxSize", "gsoIPv4MaxSize", "groIPv4MaxSize")
        for size in (1, 100, 321, 65536, 185000, 524280, 524281, 2**31, 2**32 - 1)
    ],
    "routes": [{"interface": {"addresses": OWN}, "routes": [route]} for route in ROUTES]
    + [{"interface": {"addresses": OWN}, "routes": [ROUTES[0], {"destination": "10.2.0.0/16", "gateway": "10.1.0.1"}]}]
    + [
        {
            "interface": {"addresses": ["10.0.0.2/32"]},
            "routes": [{"destination": "0.0.0.0/0", "gateway": BY}, {"destination": f"{BY}/32", "scope": 253}],
        }
    ],
    "rules": [{"interface": {"addresses": OWN}, "rules": [rule, rule]} for rule in RULES],
    "neighbors": [
        {"interface": {"addresses": OWN}, "neighbors": [{"destination": address, "hardwareAddr": hardware}]}
        for address in ("10.0.0.9", "fd00::9", "0.0.0.0", "ff02::1", "192.168.1.1")
        for hardware in HARDWARE
    ],
    "ethtool": [{"ethtool": {"features": {"": True}}}, {"ethtool": {"features": {}, "privateFlags": {}}}],
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_configuration_without_problems_can_be_attached(host_network, tmp_path, pod_network, kind):
    # The interface on the host has an address; whoever names others does not keep it.
    before = make_interface("nic0")
    refused, pod = [], pod_network()
    desk = Desk(tmp_path / "state")
    for number, config in enumerate(CONFIGS[kind]):
        config = {**config, "interface": {"name": "net1", **config.get("interface", {})}}
        if problem_of("dra.net", config) is not None:
            continue
        desk.plan("nic0", **config)
        try:
            desk.attach("nic0", pod)
        except AttachmentError as error:
            refused.append((number, config, str(error)))
        desk.release("nic0")
        assert seen("nic0") == before, config
        for family in ("-4", "-6"):
            for priority in pod.run(family, "rule", "show").splitlines():
                if (number := priority.partition(":")[0]) not in ("0", "32766") and "lookup default" not in priority:
                    pod.run(family, "rule", "del", "priority", number)
    ip("link", "del", "nic0")
    assert not refused


@pytest.mark.parametrize("kind", CONFIGS)
def test_not_everything_is_refused(kind):
    accepted = sum(problem_of("dra.net", config) is None for config in CONFIGS[kind])
    assert accepted > 0
