"""Access reviews of a viewer in a cluster with many namespaces."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from dray.client.discovery import ServedResource
from dray.web import rights
from dray.web.access import Identity
from dray.web.model import Table

NAMESPACES = 1000
PODS = ServedResource(group="", version="v1", plural="pods", kind="Pod", namespaced=True, verbs=frozenset())


class ManyNamespaces:
    """A model with a pod in every namespace."""

    def table(self, kind: str) -> Table:
        return Table(PODS, {}, Counter({f"ns-{number:04}": 1 for number in range(NAMESPACES)}))


async def test_many_namespaces_cause_few_reviews_in_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    allowed = {"ns-0007"}

    async def review(client: Any, verb: str, resource: Any, namespace: str = "", name: str = "") -> bool:
        asked.append(namespace)
        return namespace in allowed

    monkeypatch.setattr(rights, "review", review)
    now = 0.0
    viewer = Identity("ann", "ann", object(), lambda: True)  # type: ignore[arg-type]
    answers = rights.Rights(ManyNamespaces(), clock=lambda: now)  # type: ignore[arg-type]
    seen = await answers.sight(viewer, ("pods",))
    assert (seen.namespaces["pods"], len(asked)) == (frozenset({"ns-0007"}), NAMESPACES + 1)
    # What is allowed is asked for every 20 seconds: it may be taken away.
    allowed.clear()
    now = 21.0
    asked.clear()
    assert (await answers.sight(viewer, ("pods",))).namespaces["pods"] == frozenset()
    assert asked == ["", "ns-0007"]
    # What is not allowed is asked for again later.
    allowed.add("ns-0008")
    now = 199.0
    assert (await answers.sight(viewer, ("pods",))).namespaces["pods"] == frozenset()
    now = 201.0
    assert (await answers.sight(viewer, ("pods",))).namespaces["pods"] == frozenset({"ns-0008"})
