"""What holds for every strategic merge of lists with a key."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api import catalogue
from dray.api.wire_types import TYPES
from dray.server import list_types
from dray.server.list_types import MERGE_KEYS, versionless
from dray.server.patches.strategic import strategic_merge

_names = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)


def pod(names: list[str], **members: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, **members} for name in names]}}


def names_of(document: dict[str, Any]) -> list[str]:
    return [container["name"] for container in document["spec"]["containers"]]


@settings(deadline=None)
@given(_names, _names)
def test_items_of_the_patch_keep_its_order_and_all_others_theirs(live: list[str], patched: list[str]) -> None:
    merged = names_of(strategic_merge(pod(live), pod(patched, image="i"), "core_v1.Pod"))
    assert sorted(merged) == sorted({*live, *patched})
    assert [name for name in merged if name in patched] == patched
    assert [name for name in merged if name not in patched] == [name for name in live if name not in patched]


@settings(deadline=None)
@given(_names, _names)
def test_twice_is_once(live: list[str], patched: list[str]) -> None:
    once = strategic_merge(pod(live), pod(patched, image="i"), "core_v1.Pod")
    assert strategic_merge(once, pod(patched, image="i"), "core_v1.Pod") == once


@settings(deadline=None)
@given(_names, _names)
def test_a_round_trip_with_order_and_deletions(live: list[str], wanted: list[str]) -> None:
    deleted = [{"name": name, "$patch": "delete"} for name in live if name not in wanted]
    order = [{"name": name} for name in wanted]
    patch = {
        "spec": {"$setElementOrder/containers": order, "containers": [*pod(wanted)["spec"]["containers"], *deleted]}
    }
    assert names_of(strategic_merge(pod(live), patch, "core_v1.Pod")) == wanted


def test_every_merged_list_is_one_of_the_schema() -> None:
    fields = {
        f"{versionless(type_name)}.{field}": (type_name, field) for type_name in TYPES for field in TYPES[type_name]
    }
    for path, key in MERGE_KEYS.items():
        type_name, field = fields[path]
        rule = list_types.merge_rule(type_name, field)
        assert not rule.replace
        assert key == "" or key in TYPES[rule.type_name]


def test_rules_reach_every_kind() -> None:
    for target in catalogue.every_version():
        assert list_types.merge_rule(target.schema, "metadata").type_name == "meta_v1.ObjectMeta"
