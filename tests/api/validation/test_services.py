"""Services."""

import pytest

from tests.api.objects import SERVICE, causes, changed, create, update


def test_defaults():
    spec = create(SERVICE).object["spec"]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (spec["type"], spec["sessionAffinity"], spec["internalTrafficPolicy"]) == ("ClusterIP", "None", "Cluster")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec.ports": None}, {"spec.ports Required"}),
        ({"spec.ports": None, "spec.clusterIP": "None"}, set()),
        ({"spec.type": "Door"}, {"spec.type NotSupported"}),
        ({"spec.type": "ExternalName", "spec.externalName": "example.com", "spec.ports": None}, set()),
        ({"spec.type": "ExternalName"}, {"spec.externalName Invalid"}),
        ({"spec.type": "NodePort", "spec.clusterIP": "None"}, {"spec.clusterIP Invalid"}),
        ({"spec.ports.0.port": 0}, {"spec.ports[0].port Invalid", "spec.ports[0].targetPort Invalid"}),
        ({"spec.ports.0.targetPort": "http"}, set()),
        ({"spec.ports.0.targetPort": "no--name"}, {"spec.ports[0].targetPort Invalid"}),
        ({"spec.ports.0.protocol": "ICMP"}, {"spec.ports[0].protocol NotSupported"}),
        ({"spec.ports": [{"port": 1}, {"port": 2}]}, {"spec.ports[0].name Required", "spec.ports[1].name Required"}),
        ({"spec.ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]}, {"spec.ports[1].name Duplicate"}),
        ({"spec.ports": [{"name": "a", "port": 1}, {"name": "b", "port": 1}]}, {"spec.ports[1] Duplicate"}),
        ({"spec.sessionAffinity": "Cookie"}, {"spec.sessionAffinity NotSupported"}),
    ],
)
def test_services(changes, expected):
    assert causes(create(changed(SERVICE, changes))) == expected


def test_an_address_stays():
    headless = changed(SERVICE, {"spec.clusterIP": "None"})
    assert causes(update(changed(SERVICE, {"spec.clusterIP": "10.96.0.5"}), headless)) == {"spec.clusterIP Invalid"}
    # Who does not mention it leaves it as it is.
    assert update(SERVICE, headless).object["spec"]["clusterIP"] == "None"
