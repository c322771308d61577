"""The short ways to managed fields give what the long one gives."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api import catalogue, schema
from dray.api.objects import Object
from dray.server.fieldmanager import field_set, server_side, taken_fields
from dray.server.fieldmanager.field_set import FieldSet
from dray.server.fieldmanager.tracked_kinds import built_in
from dray.server.fieldmanager.walks import compare

NOW = "2026-01-01T00:00:00Z"

_found = catalogue.find("v1", "Pod")
assert _found is not None
POD = _found
TYPE = built_in(POD).field_type("v1")
assert TYPE is not None

_names = st.sampled_from("abc")
_texts = st.dictionaries(_names, st.sampled_from(["", "1", "2"]), max_size=3)
_containers = st.lists(
    st.fixed_dictionaries(
        {"name": _names},
        optional={
            "image": st.sampled_from(["x", "y"]),
            "command": st.lists(_names, max_size=2),
            "env": st.lists(st.fixed_dictionaries({"name": _names, "value": _names}), max_size=3),
            "resources": st.fixed_dictionaries({}, optional={"requests": st.just({"cpu": "1"}), "claims": st.just([])}),
        },
    ),
    max_size=3,
)
_conditions = st.lists(
    st.fixed_dictionaries({"type": _names, "status": st.sampled_from(["True", "False"])}),
    max_size=3,
    unique_by=lambda item: item["type"],
)
_metadata = st.fixed_dictionaries({"name": st.just("p")}, optional={"labels": _texts, "finalizers": st.lists(_names)})
_pods = st.fixed_dictionaries(
    {"metadata": _metadata},
    optional={
        "spec": st.fixed_dictionaries(
            {}, optional={"containers": _containers, "nodeName": _names, "hostPID": st.booleans()}
        ),
        "status": st.fixed_dictionaries({}, optional={"conditions": _conditions, "phase": _names, "podIP": _names}),
    },
)


def written(document: Object) -> Object:
    return schema.write({"apiVersion": "v1", "kind": "Pod", **document}, POD.schema)


@settings(deadline=None)
@given(_pods, _pods)
def test_they_are_what_a_comparison_finds(first: Object, second: Object) -> None:
    old, new = written(first), written(second)
    compared = compare(TYPE, old, new)
    try:
        found = taken_fields.differing(TYPE, old, new)
    except taken_fields.NotOnlyAdded:
        return
    assert not compared.removed
    assert found == field_set.encode(compared.changed)
    assert list(found) == list(field_set.encode(compared.changed))


@settings(deadline=None)
@given(_pods)
def test_nothing_is_lost_to_a_new_object(document: Object) -> None:
    blank, new = built_in(POD).blank(), written(document)
    assert taken_fields.differing(TYPE, blank, new) == field_set.encode(compare(TYPE, blank, new).changed)


@settings(deadline=None)
@given(_pods, _pods)
def test_two_sets_overlap_where_they_share_a_field(first: Object, second: Object) -> None:
    blank = built_in(POD).blank()
    one, other = (compare(TYPE, blank, written(document)).changed for document in (first, second))
    shared = taken_fields.overlap(field_set.encode(one), field_set.encode(other))
    assert shared == bool(one & other)
    assert not taken_fields.overlap(field_set.encode(one), field_set.encode(FieldSet()))


@settings(deadline=None)
@given(_pods, _pods, st.sampled_from(["", "status"]))
def test_a_newcomer_gets_what_the_long_way_gives(first: Object, second: Object, subresource: str) -> None:
    kind = built_in(POD)
    old, new = written(first), written(second)
    entries = server_side.track_update(None, old, "creator", kind=kind, now=NOW)
    old = {**old, "metadata": {**old["metadata"], "managedFields": entries}}
    later = "2026-01-01T00:00:01Z"
    short = server_side.track_newcomer(old, new, "newcomer", kind=kind, now=later, subresource=subresource)
    if short is not None:
        assert short == server_side.track_update(old, new, "newcomer", kind=kind, now=later, subresource=subresource)


def test_the_first_status_takes_the_short_way() -> None:
    kind = built_in(POD)
    old = written({"metadata": {"name": "p", "labels": {"a": "1"}}, "status": {"phase": "Pending"}})
    old["metadata"]["managedFields"] = server_side.track_update(None, old, "creator", kind=kind, now=NOW)
    new = {**old, "metadata": {"name": "p", "labels": {"a": "1"}}, "status": {"phase": "Pending", "podIP": "10.0.0.1"}}
    entries = server_side.track_newcomer(old, new, "kubelet", kind=kind, now=NOW, subresource="status")
    assert entries is not None
    assert [entry["fieldsV1"] for entry in entries if entry["manager"] == "kubelet"] == [{"f:status": {"f:podIP": {}}}]


@pytest.mark.parametrize("lost", [{"status": {}}, {"status": {"phase": "Running", "conditions": []}}])
def test_what_is_gone_is_not_for_the_short_way(lost: Object) -> None:
    old = written({"metadata": {"name": "p"}, "status": {"conditions": [{"type": "a", "status": "True"}]}})
    with pytest.raises(taken_fields.NotOnlyAdded):
        taken_fields.differing(TYPE, old, written({"metadata": {"name": "p"}, **lost}))
