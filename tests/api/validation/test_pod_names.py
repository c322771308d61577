"""Names and addresses of pods that end up in their files: /etc/hosts, resolv.conf, and the name of the host."""

import pytest

from tests.api.objects import POD, causes, changed, create

TWO_LINES = "a\n127.0.0.1 evil c"
LONG = ".".join(["a" * 60, "bbbbb"])


@pytest.mark.parametrize(
    ("aliases", "expected"),
    [
        ([{"ip": "10.0.0.1", "hostnames": ["a", "b.example.com"]}, {"ip": "2001:db8::1"}], set()),
        ([{"ip": "not-an-ip", "hostnames": ["a"]}], {"[0].ip Invalid"}),
        ([{"ip": ""}], {"[0].ip Invalid"}),
        ([{"ip": "10.0.0.1\n10.0.0.2"}], {"[0].ip Invalid"}),
        ([{"ip": "fe80::1%eth0"}], {"[0].ip Invalid"}),
        ([{"ip": "010.0.0.1"}], {"[0].ip Invalid"}),
        ([{"ip": "::ffff:10.0.0.1"}], {"[0].ip Invalid"}),
        ([{"ip": "10.0.0.1", "hostnames": ["good", TWO_LINES]}], {"[0].hostnames[1] Invalid"}),
        ([{"ip": "10.0.0.1", "hostnames": ["a b"]}], {"[0].hostnames[0] Invalid"}),
        ([{"ip": "10.0.0.1", "hostnames": [""]}], {"[0].hostnames[0] Invalid"}),
    ],
)
def test_host_aliases(aliases, expected):
    found = causes(create(changed(POD, {"spec.hostAliases": aliases})))
    assert {cause.removeprefix("spec.hostAliases") for cause in found} == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec.hostnameOverride": "web.example.com"}, set()),
        ({"spec.hostnameOverride": TWO_LINES}, {"spec.hostnameOverride Invalid"}),
        ({"spec.hostnameOverride": ""}, {"spec.hostnameOverride Invalid"}),
        ({"spec.hostnameOverride": LONG}, {"spec.hostnameOverride TooLong"}),
        ({"spec.hostnameOverride": "a", "spec.setHostnameAsFQDN": True}, {"spec.hostnameOverride Forbidden"}),
        ({"spec.hostnameOverride": "a", "spec.hostNetwork": True}, {"spec.hostnameOverride Forbidden"}),
        ({"spec.hostname": TWO_LINES}, {"spec.hostname Invalid"}),
        ({"spec.subdomain": TWO_LINES}, {"spec.subdomain Invalid"}),
        ({"spec.dnsConfig": {"nameservers": [TWO_LINES]}}, {"spec.dnsConfig.nameservers[0] Invalid"}),
        ({"spec.dnsConfig": {"searches": [TWO_LINES]}}, {"spec.dnsConfig.searches[0] Invalid"}),
    ],
)
def test_names_that_reach_files_of_the_pod(changes, expected):
    assert causes(create(changed(POD, changes))) == expected
