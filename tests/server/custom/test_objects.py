"""Custom objects through their life: created, updated, their status written, their fields tracked."""

from copy import deepcopy
from typing import Any

import pytest

from dray.api.intake import Accepted, Place, Refusal
from dray.server import custom_resource
from dray.server.custom import objects
from dray.server.custom.defaults import prune
from dray.server.custom.tracking import TrackedCustomKind
from dray.server.fieldmanager import server_side
from dray.server.status import ApiError

from .widgets import SCHEMA, version, widget

PLACE = Place("default", "w")
NOW = "2026-01-01T00:00:00Z"


def accepted(verdict: Accepted | Refusal) -> dict[str, Any]:
    assert isinstance(verdict, Accepted), verdict
    return verdict.object


def causes(verdict: Accepted | Refusal) -> list[tuple[str, str]]:
    assert isinstance(verdict, Refusal)
    return sorted((error.field, error.reason) for error in verdict.causes)


def live(**members: Any) -> dict[str, Any]:
    made = accepted(objects.create(widget(**members), version(), PLACE))
    made["metadata"].update(resourceVersion="1", uid="u")
    return made


def test_creation_fills_in_and_leaves_out() -> None:
    made = live(spec={"size": 3, "parts": [{"name": "a"}]}, status={"n": 1})
    assert made["spec"] == {"size": 3, "mode": "a", "parts": [{"name": "a", "count": 1}]}
    assert "status" not in made
    assert made["metadata"]["generation"] == 1


def test_unknown_members_are_refused_and_can_be_pruned() -> None:
    document = widget(spec={"size": 3, "junk": 1, "parts": [{"name": "a", "x": 1}], "free": {"any": {"thing": 1}}})
    verdict = objects.create(document, version(), PLACE)
    assert isinstance(verdict, Refusal)
    assert (verdict.code, [error.field for error in verdict.errors]) == (400, ["spec.junk", "spec.parts[0].x"])
    made = accepted(objects.create(objects.prune(document, version()), version(), PLACE))
    assert made["spec"] == {
        "size": 3,
        "mode": "a",
        "parts": [{"name": "a", "count": 1}],
        "free": {"any": {"thing": 1}},
    }


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"size": 30}, [("spec.size", "FieldValueInvalid")]),
        (
            {"mode": "c", "size": "big"},
            [("spec.mode", "FieldValueNotSupported"), ("spec.size", "FieldValueTypeInvalid")],
        ),
        ({}, [("spec.size", "FieldValueRequired")]),
        ({"size": None}, [("spec.size", "FieldValueRequired")]),
        ({"size": 1, "mode": None}, []),
        ({"size": 1, "tags": ["x", "x"]}, [("spec.tags[1]", "FieldValueDuplicate")]),
        ("no object", [("spec", "FieldValueTypeInvalid")]),
    ],
)
def test_what_is_refused(spec: Any, expected: list[tuple[str, str]]) -> None:
    verdict = objects.create(widget(spec=spec), version(), PLACE)
    assert (causes(verdict) if isinstance(verdict, Refusal) else []) == expected


def test_metadata_is_held_to_its_own_rules() -> None:
    bad = widget(spec={"size": 1})
    bad["metadata"] = {"name": "Not A Name", "labels": {"a b": "c"}}
    assert {field for field, _ in causes(objects.create(bad, version(), PLACE))} == {"metadata.name", "metadata.labels"}
    for metadata in ({"labels": 1}, {"nope": 1}, []):
        verdict = objects.create(widget(spec={"size": 1}) | {"metadata": metadata}, version(), PLACE)
        assert isinstance(verdict, Refusal)
        assert verdict.code in (400, 422)


def test_an_update_leaves_the_status_alone_and_counts() -> None:
    old = live(spec={"size": 3}) | {"status": {"n": 1}}
    new = deepcopy(old) | {"spec": {"size": 4}, "status": {"n": 2}}
    made = accepted(objects.update(new, old, version(), PLACE))
    assert (made["spec"]["size"], made["status"], made["metadata"]["generation"]) == (4, {"n": 1}, 2)
    relabelled = deepcopy(old)
    relabelled["metadata"]["labels"] = {"a": "b"}
    assert accepted(objects.update(relabelled, old, version(), PLACE))["metadata"]["generation"] == 1


def test_a_status_update_leaves_all_else_alone() -> None:
    old = live(spec={"size": 3})
    new = deepcopy(old) | {"spec": {"size": 5}, "status": {"n": 1}}
    new["metadata"]["labels"] = {"a": "b"}
    made = accepted(objects.update(new, old, version(), PLACE, "status"))
    assert (made["spec"]["size"], made["status"], made["metadata"]["generation"]) == (3, {"n": 1}, 1)
    assert "labels" not in made["metadata"]


def test_an_update_says_what_it_is_of() -> None:
    old = live(spec={"size": 3})
    without = deepcopy(old)
    del without["metadata"]["resourceVersion"]
    assert causes(objects.update(without, old, version(), PLACE)) == [("metadata.resourceVersion", "FieldValueInvalid")]
    elsewhere = objects.update(old, old, version(), Place("default", "x"))
    assert isinstance(elsewhere, Refusal)
    assert elsewhere.code == 400


def test_what_was_stored_before_a_stricter_schema_may_stay() -> None:
    old = live(spec={"size": 9})
    stricter = deepcopy(SCHEMA)
    stricter["properties"]["spec"]["properties"]["size"]["maximum"] = 5  # type: ignore[index]
    changed = deepcopy(old)
    changed["spec"]["mode"] = "b"
    accepted(objects.update(changed, old, version(stricter), PLACE))
    changed["spec"]["size"] = 8
    assert causes(objects.update(changed, old, version(stricter), PLACE)) == [("spec.size", "FieldValueInvalid")]


def test_fields_of_custom_objects_have_owners() -> None:
    kind = TrackedCustomKind(version(), [version()])
    made = live(spec={"size": 3, "parts": [{"name": "a"}], "free": {"x": {"y": [1]}}})
    [entry] = server_side.track_update(None, made, "creator", kind=kind, now=NOW)
    assert entry["fieldsV1"] == {
        "f:spec": {
            ".": {},
            "f:free": {".": {}, "f:x": {".": {}, "f:y": {}}},
            "f:mode": {},
            "f:parts": {".": {}, 'k:{"name":"a"}': {".": {}, "f:count": {}, "f:name": {}}},
            "f:size": {},
        }
    }
    made["metadata"]["managedFields"] = [entry]
    applied = server_side.apply(made, widget(spec={"parts": [{"name": "b"}], "tags": ["t"]}), "one", kind=kind, now=NOW)
    assert [part["name"] for part in applied["spec"]["parts"]] == ["a", "b"]
    with pytest.raises(ApiError) as refused:
        server_side.apply(applied, widget(spec={"size": 4}), "one", kind=kind, now=NOW)
    assert [cause["field"] for cause in refused.value.details["causes"]] == [".spec.size"]
    status = server_side.apply(
        made, widget(spec={"size": 8}, status={"n": 1}), "one", kind=kind, now=NOW, subresource="status"
    )
    assert status["metadata"]["managedFields"][0]["fieldsV1"] == {"f:status": {"f:n": {}}}


def test_columns() -> None:
    made = live(spec={"size": 3})
    columns = custom_resource.columns(version())
    assert [(column.name, column.cell(made, NOW)) for column in columns] == [("Name", "w"), ("Size", 3)]


def test_metadata_of_an_embedded_object_has_known_members_only():
    inner = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"template": inner}}}}
    template = {"apiVersion": "v1", "kind": "Sub", "metadata": {"name": "x", "strange": "y"}, "kept": 1}
    pruned, dropped = prune({"metadata": {"odd": 1}, "spec": {"template": template}}, schema)
    assert dropped == ["spec.template.metadata.strange"]
    assert pruned["spec"]["template"] == {**template, "metadata": {"name": "x"}}
