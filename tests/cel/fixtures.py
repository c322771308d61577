"""Devices that the tests share."""

from dray.cel import Device

DRIVER = "gpu.acme.test"
PLAIN = {
    "attributes": {
        "model": {"string": "X100"},
        "cores": {"int": 64},
        "ecc": {"bool": True},
        "fw": {"version": "2.5.1"},
        "fab.test/link": {"string": "nvl-3"},
    },
    "capacity": {"mem": {"value": "80Gi"}, "fab.test/bw": {"value": "1500M"}},
}
LISTS = PLAIN | {
    "attributes": PLAIN["attributes"]
    | {
        "tags": {"strings": ["fast", "hbm"]},
        "nums": {"ints": [1, 2, 3]},
        "vers": {"versions": ["1.0.0", "2.0.0"]},
    }
}


def plain():
    return Device(DRIVER, PLAIN)


def lists():
    return Device(DRIVER, LISTS)
