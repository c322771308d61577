"""Kinds that the server provides: served while nobody has defined them, and never in the way of who does."""

import pytest

from dray.server.context import Context
from tests.server.api import APPLY, Api, serving
from tests.server.test_custom_kinds import DEFINITIONS, WIDGETS, definition, widget

WIDGET_DEFINITION = f"{DEFINITIONS}/widgets.example.com"


@pytest.fixture
def api():
    with serving(provided=[definition()]) as api:
        yield api


def applied(**names):
    body = definition()
    spec = {**body["spec"], "names": {**body["spec"]["names"], **names}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **body, "spec": spec}


def test_they_are_served_without_a_definition(api):
    assert api.create(WIDGETS, widget())["spec"] == {"size": 3, "mode": "a"}
    assert api.refusal("POST", WIDGETS, widget("x", 30)) == (422, "Invalid", ["spec.size"])
    assert api.get("/apis/example.com/v1")["resources"][0]["name"] == "widgets"
    assert api.get(DEFINITIONS)["items"] == []
    assert api.ask("GET", WIDGET_DEFINITION)[0] == 404


def test_whoever_defines_one_meets_no_conflict_and_its_objects_stay(api):
    api.create(WIDGETS, widget())
    body = applied(shortNames=["wid"])
    code, made = api.ask("PATCH", f"{WIDGET_DEFINITION}?fieldManager=installer", body, content_type=APPLY)
    assert (code, made["status"]["acceptedNames"]["shortNames"]) == (201, ["wid"])
    assert [each["operation"] for each in made["metadata"]["managedFields"]] == ["Apply"]
    assert api.get("/apis/example.com/v1")["resources"][0]["shortNames"] == ["wid"]
    assert api.get(f"{WIDGETS}/w")["spec"]["size"] == 3


def test_they_are_served_again_when_their_definition_is_gone(api):
    api.create(DEFINITIONS, applied(shortNames=["wid"]))
    api.create(WIDGETS, widget())
    api.delete(WIDGET_DEFINITION)
    for _ in range(100):
        if api.ask("GET", WIDGET_DEFINITION)[0] == 404:
            break
        api.wait(0.01)
    assert api.get("/apis/example.com/v1")["resources"][0]["shortNames"] == ["wd"]
    assert api.get(WIDGETS)["items"] == []
    assert api.create(WIDGETS, widget("another"))["metadata"]["name"] == "another"


def test_one_that_was_defined_before_the_server_began_is_as_defined():
    with serving() as before:
        before.create(DEFINITIONS, applied(shortNames=["wid"]))
        after = Api(before.runner, Context(before.context.store), [definition()])
        assert after.get("/apis/example.com/v1")["resources"][0]["shortNames"] == ["wid"]
