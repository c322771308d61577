from __future__ import annotations

import pytest

from dray.yaml.documents import parse
from dray.yaml.text import segments

V1BETA1 = b"""\
spec:
  devices:
    requests:
    - name: gpu
      count: 2
  slices:
  - basic:
      capacity:
        a.example.com/memory:
          value: 1
"""
TEMPLATE = b"""\
spec:
  spec:
    devices:
      requests:
      - exactly:
          adminAccess: true
"""


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        ("", 1, 1),
        ("spec", 1, 1),
        ("spec.devices.requests", 3, 5),
        ("spec.devices.requests[0]", 4, 7),
        ("spec.devices.requests[0].count", 5, 7),
        ("spec.devices.requests[0].exactly.count", 5, 7),
        ("spec.devices.requests[0].missing.deeper", 4, 7),
        ("spec.devices.requests[7].name", 3, 5),
        ("spec.slices[0].capacity[a.example.com/memory].value", 10, 11),
        ("nowhere", 1, 1),
    ],
)
def test_find_gives_the_field_or_its_closest_ancestor(path: str, line: int, column: int) -> None:
    place = parse(V1BETA1)[0].place.find(path)
    assert (place.line, place.column) == (line, column)


@pytest.mark.parametrize("prefix", ["spec.devices.requests[0]", "spec.spec.devices.requests[0].exactly"])
def test_find_knows_the_spec_within_a_template(prefix: str) -> None:
    place = parse(TEMPLATE)[0].place.find(f"{prefix}.adminAccess")
    assert (place.line, place.column) == (6, 11)


def test_segments_keep_map_keys_whole() -> None:
    assert segments("spec.devices[0].capacity[a.b/c].value") == [
        "spec",
        "devices",
        "0",
        "capacity",
        "a.b/c",
        "value",
    ]
