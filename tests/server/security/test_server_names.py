"""Names of the API server are recognised in every spelling that a client would take for them."""

from __future__ import annotations

import pytest

from dray.server.security.server_names import is_of_one_machine, normalized, server_name_in

OWN = ("api.example.com", "192.0.2.9", "2001:DB8::1", "MACHINE", "*.wild.example.com")


@pytest.mark.parametrize(
    "name",
    [
        "api.example.com",
        "API.Example.com",
        "api.example.com.",
        "*.example.com",
        "*.api.example.com",
        "*",
        "machine",
        "192.0.2.9",
        "192.0.2.9.",
        "192.0.521",
        "::ffff:192.0.2.9",
        "2001:db8:0:0::1",
        "a.wild.example.com",
        "localhost",
        "x.localhost",
        "127.0.0.2",
        "127.1",
        "kubernetes.default",
        "*.default.svc",
        "webhook.team.svc",
        "kubernetes.default.svc.cluster.local",
    ],
)
def test_names_of_the_server_are_recognised_in_every_spelling(name):
    assert server_name_in(["n1", name], OWN) == name


@pytest.mark.parametrize(
    "name", ["n1", "example.com", "node.example.com", "api.example.org", "192.0.2.90", "10", "svc", "a.svc.example.com"]
)
def test_names_that_are_not_of_the_server_are_allowed(name):
    assert server_name_in([name], OWN) == ""


def test_all_spellings_of_an_address_are_normalized_to_one():
    assert {
        normalized(address) for address in ("127.0.0.1", "127.1", "::ffff:127.0.0.1", "0x7f.1", "017700000001")
    } == {"127.0.0.1"}
    assert normalized("fe80::1%eth0") == "fe80::1"


def test_addresses_that_many_machines_have():
    for text in ("127.0.0.1", "::1", "0.0.0.0", "::", "169.254.1.1", "fe80::1", "224.0.0.1", "::ffff:127.0.0.1"):
        assert not is_of_one_machine(text), text
    assert is_of_one_machine("10.0.0.1")
    assert is_of_one_machine("2001:db8::1")
