"""The objects that views are made from: what the garbage collector is told about many of them."""

from __future__ import annotations

import pytest

from dray.process import memory
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from dray.web import model
from dray.web.model import Model


@pytest.mark.parametrize(("many", "told"), [(3, ["keep", "drop", "keep", "drop"]), (4, [])])
async def test_many_objects_are_kept_from_the_collector_until_the_model_is_closed(
    monkeypatch: pytest.MonkeyPatch, many: int, told: list[str]
) -> None:
    said: list[str] = []
    monkeypatch.setattr(model, "_MANY", many)
    monkeypatch.setattr(memory, "keep", lambda: said.append("keep"))
    monkeypatch.setattr(memory, "drop", lambda: said.append("drop"))
    async with LocalCluster(objects=[objects.node(name) for name in ("a", "b", "c")]) as cluster:
        made = Model(cluster.client)
        for _ in range(2):
            await made.need(["nodes"])
            await made.need(["nodes"])
            await made.close()
    assert said == told
