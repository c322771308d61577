from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

SLICES = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: gpu.example.com
  nodeName: node
  pool: {name: p, generation: 2, resourceSliceCount: 2}
  sharedCounters:
  - {name: card-0, counters: {memory: {value: 80Gi}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: b}
spec:
  driver: gpu.example.com
  nodeName: node
  pool: {name: p, generation: 2, resourceSliceCount: 2}
  devices:
  - name: part-0
    consumesCounters: [{counterSet: card-0, counters: {memory: {value: 40Gi}}}]
"""


@pytest.fixture
def findings(run: Callable[..., Result], write: Callable[..., str]) -> Callable[[str], list[str]]:
    return lambda text: run("lint", write(text)).stdout.splitlines()[:-1]


def test_whole_pools_are_fine(findings: Callable[[str], list[str]]) -> None:
    assert findings(SLICES) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("resourceSliceCount: 2", "resourceSliceCount: 3", 7, "incomplete-pool]: ResourceSlice a"),
        ("resourceSliceCount: 2", "resourceSliceCount: 1", 7, "has 1 slices, and 2 of this generation are"),
        ("counterSet: card-0", "counterSet: card-1", 20, "no slice of the pool has a counter set 'card-1'"),
        ("{memory: {value: 40Gi}}", "{cores: {value: 4}}", 20, "the counter set 'card-0' has no counter 'cores'"),
    ],
)
def test_what_is_wrong_with_a_pool(
    findings: Callable[[str], list[str]], old: str, new: str, line: int, said: str
) -> None:
    [found] = findings(SLICES.replace(old, new))
    assert found.startswith(f"m.yaml:{line}:")
    assert said in found


def test_slices_of_an_older_generation_count_for_nothing(findings: Callable[[str], list[str]]) -> None:
    older = SLICES.replace("generation: 2", "generation: 1", 1)
    assert [each.partition("incomplete-pool]: ")[2][:15] for each in findings(older)] == ["ResourceSlice b"]


def test_a_counter_set_may_be_in_a_slice_that_is_not_given(findings: Callable[[str], list[str]]) -> None:
    [found] = findings(SLICES.partition("---\n")[2])
    assert "incomplete-pool" in found
