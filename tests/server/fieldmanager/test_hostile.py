"""Configurations, patches and managed fields of any shape are taken or refused, and nothing else."""

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dray.server.fieldmanager import field_set, managers, server_side
from dray.server.patches.strategic import strategic_merge
from dray.server.status import ApiError

from .telling import NOW, Told

_leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2)
_names = st.sampled_from(
    "metadata name labels finalizers ownerReferences uid managedFields spec containers env ports containerPort "
    "tolerations nodeSelector status conditions type $patch $retainKeys $setElementOrder/containers "
    "$deleteFromPrimitiveList/finalizers $setElementOrder/finalizers".split()
)
_values = st.recursive(
    _leaves | st.sampled_from(["replace", "delete", "merge"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=4),
    max_leaves=12,
)
_documents = st.dictionaries(_names, _values, max_size=4)
_containers = st.fixed_dictionaries(
    {"spec": st.fixed_dictionaries({"containers": st.lists(st.dictionaries(_names, _values, max_size=3), max_size=3)})}
)
LIVE = {
    "metadata": {"name": "p", "finalizers": ["a/b"], "labels": {"x": "y"}},
    "spec": {"containers": [{"name": "a", "env": [{"name": "E", "value": "1"}], "ports": [{"containerPort": 1}]}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


@settings(deadline=None, max_examples=200)
@given(_documents | _containers)
def test_any_strategic_merge(patch: dict[str, Any]) -> None:
    with suppress(ApiError):
        strategic_merge(LIVE, patch, "core_v1.Pod")


@settings(deadline=None, max_examples=200)
@given(_documents | _containers)
def test_any_configuration(document: dict[str, Any]) -> None:
    told = Told("v1", "Pod")
    told.update(LIVE, "creator")
    identity = {"apiVersion": "v1", "kind": "Pod"}
    with suppress(ApiError):
        server_side.apply(told.live, {**document, **identity}, "one", kind=told.kind, now=NOW)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.dictionaries(st.sampled_from("manager operation apiVersion fieldsType fieldsV1 time".split()), _values))
)
def test_any_managed_fields(entries: list[Any]) -> None:
    told = Told("v1", "Pod")
    new = {**told.whole(LIVE), "metadata": {"name": "p", "managedFields": entries}}
    server_side.track_update(None, new, "creator", kind=told.kind, now=NOW)


def test_thousands_of_managers_are_merged_in_one_go() -> None:
    entries = [
        {
            "manager": f"m{number}",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2024-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, f"f:k{number}": {}}},
        }
        for number in range(5000)
    ]
    known = managers.decode(entries)
    assert known is not None
    left = managers.encode(managers.capped(known))
    assert len(left) == managers.MAX_UPDATERS
    [ancient] = [entry for entry in left if entry["manager"] == "ancient-changes"]
    assert len(ancient["fieldsV1"]["f:data"]) == 1 + 5000 - 9


def test_a_union_leaves_the_sets_as_they_are() -> None:
    sets = [field_set.of_paths("a.b", "c"), field_set.of_paths("a.d", "a"), field_set.of_paths("a.b.e")]
    before = [field_set.ordered(each) for each in sets]
    assert field_set.union(*sets) == {"f:a": {".": {}, "f:b": {".": {}, "f:e": {}}, "f:d": {}}, "f:c": {}}
    assert [field_set.ordered(each) for each in sets] == before
