"""Name servers of pods, by policy and configuration."""

import pytest

from dray.node.errors import SetupError
from dray.node.pod_dns import resolv_conf

MACHINE = "# made by hand\nnameserver 10.0.0.1\nnameserver 10.0.0.2\nsearch lab.example\noptions ndots:1 rotate\n"


def pod(**spec):
    return {"spec": spec}


def test_a_pod_that_asks_for_nothing_has_those_of_the_machine():
    assert resolv_conf(pod(dnsPolicy="ClusterFirst"), MACHINE) is None
    assert resolv_conf(pod(), MACHINE) is None


def test_configuration_is_added_and_its_options_win():
    config = {
        "nameservers": ["10.0.0.2", "10.0.0.3", "10.0.0.4"],
        "searches": ["more.example"],
        "options": [{"name": "ndots", "value": "5"}, {"name": "edns0"}],
    }
    assert resolv_conf(pod(dnsPolicy="Default", dnsConfig=config), MACHINE).splitlines() == [
        "nameserver 10.0.0.1",
        "nameserver 10.0.0.2",
        "nameserver 10.0.0.3",
        "search lab.example more.example",
        "options ndots:5 rotate edns0",
    ]


def test_with_the_policy_none_the_configuration_is_all():
    assert resolv_conf(pod(dnsPolicy="None", dnsConfig={"nameservers": ["10.9.9.9"]}), MACHINE) == (
        "nameserver 10.9.9.9\n"
    )


@pytest.mark.parametrize("option", [{"name": "a\nnameserver 10.6.6.6"}, {"name": "a", "value": "1\r\nsearch evil"}])
def test_an_option_that_would_add_lines_is_refused(option):
    config = {"options": [{"name": "edns0"}, option]}
    with pytest.raises(SetupError, match=r"dnsConfig\.options\[1\]: .* remove it"):
        resolv_conf(pod(dnsPolicy="Default", dnsConfig=config), MACHINE)
