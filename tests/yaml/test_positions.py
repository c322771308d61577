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
    ("document", "path", "line", "column"),
    [
        (V1BETA1, "", 1, 1),
        (V1BETA1, "spec", 1, 1),
        (V1BETA1, "spec.devices.requests", 3, 5),
        (V1BETA1, "spec.devices.requests[0]", 4, 7),
        (V1BETA1, "spec.devices.requests[0].count", 5, 7),
        (V1BETA1, "spec.devices.requests[0].exactly.count", 5, 7),
        (V1BETA1, "spec.devices.requests[0].missing.deeper", 4, 7),
        (V1BETA1, "spec.devices.requests[7].name", 3, 5),
        (V1BETA1, "spec.slices[0].capacity[a.example.com/memory].value", 10, 11),
        (V1BETA1, "nowhere", 1, 1),
        (TEMPLATE, "spec.devices.requests[0].adminAccess", 6, 11),
        (TEMPLATE, "spec.spec.devices.requests[0].exactly.adminAccess", 6, 11),
    ],
)
def test_find_gives_the_field_or_its_closest_ancestor(document: bytes, path: str, line: int, column: int) -> None:
    place = parse(document)[0].place.find(path)
    assert (place.line, place.column) == (line, column)


def test_segments_keep_map_keys_whole() -> None:
    assert segments("spec.devices[0].capacity[a.b/c].value") == [
        "spec",
        "devices",
        "0",
        "capacity",
        "a.b/c",
        "value",
    ]
