from __future__ import annotations

from typing import Any

import pytest

from dray.server.security import peer


def certificate(*attributes: tuple[str, str]) -> dict[str, Any]:
    return {"subject": tuple((attribute,) for attribute in attributes), "notAfter": "Jan  1 00:00:00 2040 GMT"}


def test_groups_keep_their_order() -> None:
    names = [("organizationName", "b"), ("organizationName", "a"), ("commonName", "jane")]
    found = peer._read(certificate(*names), "f")
    assert found is not None
    assert (found.user.name, found.user.groups) == ("jane", ("b", "a", "system:authenticated"))
    assert found.expires == 2208988800


@pytest.mark.parametrize(
    "attributes",
    [
        [("organizationName", "system:masters")],
        [("commonName", "")],
        [("commonName", "jane"), ("commonName", "root")],
        [],
    ],
)
def test_a_subject_that_names_nobody_is_nobody(attributes: list[tuple[str, str]]) -> None:
    assert peer._read(certificate(*attributes), "f") is None
