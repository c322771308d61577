"""Records of which key has the name of a node."""

from __future__ import annotations

from datetime import UTC, datetime

from dray.api.names import is_subdomain
from dray.api.node_certificates import record, record_name, refusal

NOW = datetime(2030, 1, 2, tzinfo=UTC)


def why(found, *, exists=False, key="k1"):
    return refusal("n1", found, node_exists=exists, key_hash=key, now=NOW)


def test_a_name_is_held_by_its_key_until_the_certificate_expires():
    held = record("n1", "k1", "2030-01-03T00:00:00Z")
    assert why(None) == ""
    assert why(held) == ""
    assert why(held, exists=True) == ""
    assert "kubectl delete configmap -n kube-system node-certificate.n1" in why(held, key="k2")
    assert why(record("n1", "k1", "2030-01-01T00:00:00Z"), key="k2") == ""
    assert "Node n1 exists already" in why(None, exists=True)


def test_a_record_that_cannot_be_read_frees_no_name():
    for broken in (
        {"data": {}},
        {"data": None},
        {"data": {"expires": "soon"}},
        record("n1", "k1", "2030-01-01T00:00:00"),
    ):
        assert why(broken, key="k2"), broken


def test_long_names_have_a_record_too():
    names = {record_name(letter * 63 + "." + letter * 63 + "." + letter * 63 + "." + letter * 60) for letter in "ab"}
    assert len(names) == 2
    assert all(is_subdomain(name) for name in names)
