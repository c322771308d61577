"""The `allocation` and `hard` corpora: the devices that claims get, asked node by node.

All feature gates are on. Share ids are compared as `*`. Of errors only the fact is compared; their text is ours. A
`hard` case must also be answered within `TIME_LIMIT`.
"""

from __future__ import annotations

import time
from typing import Any, Final

import dray.allocation.pruning  # noqa: F401  # Loaded before the clock starts.
from dray.allocation import Allocation, Inventory, Rejection, RejectionKind, allocate
from dray.testing.conformance.corpus import Case, Outcome

TIME_LIMIT: Final = 0.050
"""Seconds for all nodes of one hard case, the inventory included."""
_RUNS: Final = 3


def run(case: Case) -> Outcome:
    return Outcome(case["name"], _difference(case))


def run_hard(case: Case) -> Outcome:
    """Checks the answer and its CPU time; a run that took too long is repeated twice."""
    for _ in range(_RUNS):
        started = time.thread_time()
        difference = _difference(case)
        seconds = time.thread_time() - started
        if difference is not None or seconds <= TIME_LIMIT:
            return Outcome(case["name"], difference)
    return Outcome(case["name"], f"took {seconds * 1000:.1f} ms, the limit is {TIME_LIMIT * 1000:.0f} ms")


def _difference(case: Case) -> str | None:
    inventory = Inventory(slices=case["slices"], classes=case["classes"], claims=case["allocated"] or ())
    nodes = {node["metadata"]["name"]: node for node in case["nodes"]}
    for expected in case["expect"]:
        node = nodes[expected["node"]]
        answer = allocate(inventory, node, case["claims"], share_ids=lambda *_: "*", explain=False)
        difference = _compare(expected, answer)
        if difference is not None:
            return f"node {expected['node']}: {difference}"
    return None


def _compare(expected: dict[str, Any], answer: Allocation | Rejection) -> str | None:
    given = _outcome(answer)
    if expected["outcome"] != given:
        detail = expected.get("error") or expected.get("results") or ""
        return f"expected {expected['outcome']}, got {given}: {str(answer)[:300]}; expected {str(detail)[:300]}"
    # If Kubernetes was stopped, only the outcome is known.
    if isinstance(answer, Rejection) or "results" not in expected:
        return None
    for wanted, result in zip(expected["results"], answer.results, strict=True):
        if wanted != result:
            return f"expected {wanted}, got {result}"
    return None


def _outcome(answer: Allocation | Rejection) -> str:
    if isinstance(answer, Allocation):
        return "allocated"
    return "none" if answer.kind is RejectionKind.NO_SOLUTION else "error"
