"""Plans of pools, and the slices that were written before an informer tells of them."""

from typing import Any

from dray.api.objects import Object
from dray.driver.slices.own_slices import OwnSlices
from dray.driver.slices.plan import Declaration, make_plan
from dray.testing.cluster import LocalCluster

DRIVER = "d.example.com"
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "u", "controller": True}


def declared(*devices: str, generation: int = 0) -> Declaration:
    specs = [{"nodeName": "node-1", "devices": [{"name": each}]} for each in devices]
    return Declaration(DRIVER, "p", OWNER, specs, generation)


def stored(declaration: Declaration, index: int, generation: int, suffix: str = "abcde") -> Object:
    name = f"{declaration.name_prefix(index)}{suffix}"
    metadata: dict[str, Any] = {"name": name, "uid": name, "resourceVersion": "5", "ownerReferences": [OWNER]}
    return {"metadata": metadata, "spec": declaration.spec(index, generation)}


def test_nothing_is_written_for_what_is_there() -> None:
    pool = declared("a", "b")
    plan = make_plan(pool, [stored(pool, 0, 3), stored(pool, 1, 3)], {})
    assert (plan.generation, plan.delete, plan.update, plan.create) == (3, [], [], [])


def test_a_new_generation_is_written_into_slices_that_have_not_changed_too() -> None:
    pool = declared("a", "b", generation=7)
    plan = make_plan(pool, [stored(pool, 0, 3), stored(pool, 1, 3)], {})
    assert plan.generation == 7
    assert [(index, each["spec"]["pool"]["generation"]) for index, each in plan.update] == [(0, 7), (1, 7)]


def test_older_generations_doubles_and_foreign_names_are_deleted() -> None:
    pool = declared("a")
    kept, double = stored(pool, 0, 3, "aaaaa"), stored(pool, 0, 3, "bbbbb")
    older = stored(declared("a", "b"), 1, 2)
    foreign = {**stored(pool, 0, 3), "metadata": {"name": "node-1-d.example.com-x", "uid": "f"}}
    plan = make_plan(pool, [double, kept, older, foreign], {})
    assert [each["metadata"]["name"] for each in plan.delete] == [
        double["metadata"]["name"],
        older["metadata"]["name"],
        foreign["metadata"]["name"],
    ]
    assert (plan.generation, plan.update, plan.create) == (3, [], [])


def test_a_slice_of_another_node_is_made_anew() -> None:
    pool = declared("a")
    elsewhere = stored(pool, 0, 1)
    elsewhere["spec"] = {**elsewhere["spec"], "nodeName": "node-2"}
    plan = make_plan(pool, [elsewhere], {})
    assert (plan.delete, [index for index, _ in plan.create]) == ([elsewhere], [0])


def test_slices_without_their_owner_get_it_back() -> None:
    pool = declared("a")
    orphan = stored(pool, 0, 1)
    del orphan["metadata"]["ownerReferences"]
    ((_, updated),) = make_plan(pool, [orphan], {}).update
    assert updated["metadata"]["ownerReferences"] == [OWNER]


async def test_what_was_written_counts_before_the_informer_tells_of_it() -> None:
    async with LocalCluster() as cluster:
        own = OwnSlices(cluster.client, DRIVER, "node-1", wide=False, changed=lambda _: None)
        made = stored(declared("a"), 0, 1)
        own.wrote(made)
        assert own.pools() == {"p": [made]}
        own.deleted(made)
        assert own.pools() == {}
