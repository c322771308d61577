"""Custom kinds: served from the write that defines them on, and gone with it."""

import pytest

from dray.server.api_server import ApiServer
from dray.server.context import Context
from tests.server.api import APPLY, MERGE, STRATEGIC, TABLE, Api, named, serving

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def definition(*, versions=("v1",), **version):
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1, "maximum": 9},
                    "mode": {"type": "string", "default": "a"},
                    "replicas": {"type": "integer"},
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    each = {
        "served": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        "selectableFields": [{"jsonPath": ".spec.mode"}],
        **version,
    }
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"]},
            "scope": "Namespaced",
            "versions": [{"name": name, "storage": name == versions[0], **each} for name in versions],
        },
    }


def widget(name="w", size=3, **spec):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": size, **spec},
    }


@pytest.fixture
def custom(api):
    made = api.create(DEFINITIONS, definition())
    assert {c["type"]: c["status"] for c in made["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    return api


def test_objects_are_defaulted_checked_and_pruned(custom):
    made = custom.create(WIDGETS, widget(junk=1))
    assert made["spec"] == {"size": 3, "mode": "a"}
    assert made["metadata"]["generation"] == 1
    assert custom.refusal("POST", WIDGETS, widget("x", 30)) == (422, "Invalid", ["spec.size"])
    assert custom.refusal("POST", f"{WIDGETS}?fieldValidation=Strict", widget("x", junk=1))[0] == 400


def test_rules_wait_for_an_object_of_the_right_shape(api):
    body = definition()
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["x-kubernetes-validations"] = [{"rule": "self.spec.size < 5"}]
    api.create(DEFINITIONS, body)
    _, refused = api.ask("POST", WIDGETS, {**widget(), "spec": {}})
    assert "spec.size: Required value, <nil>: Invalid value: null: some validation rules were not" in refused["message"]


def test_spec_and_status_are_apart(custom):
    custom.create(WIDGETS, widget())
    main = custom.patch(f"{WIDGETS}/w", {"spec": {"size": 4}, "status": {"n": 1}})
    assert (main["spec"]["size"], main.get("status"), main["metadata"]["generation"]) == (4, None, 2)
    status = custom.patch(f"{WIDGETS}/w/status", {"spec": {"size": 5}, "status": {"n": 1}})
    assert (status["spec"]["size"], status["status"], status["metadata"]["generation"]) == (4, {"n": 1}, 2)


def test_they_can_be_listed_selected_and_watched(custom):
    custom.create(WIDGETS, widget("a"))
    custom.create(WIDGETS, widget("b", mode="z"))
    listed = custom.get(WIDGETS)
    assert (listed["kind"], listed["items"][0]["kind"]) == ("WidgetList", "Widget")
    assert named(custom.get(f"{WIDGETS}?fieldSelector=spec.mode%3Dz")) == ["b"]
    assert [event["object"]["metadata"]["name"] for event in custom.watch(f"{WIDGETS}?watch=1", events=2)] == ["a", "b"]
    assert [row["cells"] for row in custom.get(WIDGETS, accept=TABLE)["rows"]] == [["a", 3], ["b", 3]]


def test_patches(custom):
    custom.create(WIDGETS, widget())
    assert custom.refusal("PATCH", f"{WIDGETS}/w", {}, content_type=STRATEGIC)[0] == 415
    applied = custom.patch(f"{WIDGETS}/w?fieldManager=me&force=true", widget(size=7), APPLY)
    assert applied["spec"]["size"] == 7


def test_scale(custom):
    custom.create(WIDGETS, widget(replicas=2))
    scale = custom.get(f"{WIDGETS}/w/scale")
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 2})
    assert custom.put(f"{WIDGETS}/w/scale", {**scale, "spec": {"replicas": 5}})["spec"] == {"replicas": 5}
    assert custom.patch(f"{WIDGETS}/w/scale", {"spec": {"replicas": 6}})["spec"] == {"replicas": 6}
    assert custom.get(f"{WIDGETS}/w")["spec"]["replicas"] == 6
    bad = {"spec": {"replicas": -1}}
    assert custom.refusal("PATCH", f"{WIDGETS}/w/scale", bad, content_type=MERGE)[0] == 422


def test_discovery_and_the_schema_know_them(custom):
    (resource,) = [r for r in custom.get("/apis/example.com/v1")["resources"] if "/" not in r["name"]]
    assert (resource["kind"], resource["shortNames"]) == ("Widget", ["wd"])
    document = custom.get("/openapi/v3/apis/example.com/v1")
    assert "com.example.v1.Widget" in document["components"]["schemas"]


def test_another_version_of_the_same_object(api):
    api.create(DEFINITIONS, definition(versions=("v1", "v2")))
    api.create(WIDGETS, widget())
    shown = api.get(f"{WIDGETS.replace('/v1/', '/v2/')}/w")
    assert shown["apiVersion"] == "example.com/v2"


def test_a_definition_that_is_wrong(api):
    bad = definition()
    bad["metadata"]["name"] = "other.example.com"
    assert api.refusal("POST", DEFINITIONS, bad) == (422, "Invalid", ["metadata.name"])


def test_nothing_is_left_of_them(custom):
    custom.create(WIDGETS, widget())
    custom.delete(f"{DEFINITIONS}/widgets.example.com")
    custom.wait()
    assert custom.ask("GET", WIDGETS)[0] == 404
    custom.create(DEFINITIONS, definition())
    assert named(custom.get(WIDGETS)) == []


def test_a_definition_waits_for_objects_that_are_held(custom):
    held = widget()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    custom.create(WIDGETS, held)
    custom.create(WIDGETS, widget("free"))
    gone = custom.delete(f"{DEFINITIONS}/widgets.example.com")
    assert gone["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    custom.wait()
    ending = custom.get(f"{DEFINITIONS}/widgets.example.com")
    assert {c["type"]: c["status"] for c in ending["status"]["conditions"]}["Terminating"] == "True"
    (left,) = custom.get(WIDGETS)["items"]
    assert (left["metadata"]["name"], "deletionTimestamp" in left["metadata"]) == ("w", True)
    assert custom.refusal("POST", WIDGETS, widget("late"))[:2] == (405, "MethodNotAllowed")
    custom.patch(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})
    custom.wait()
    assert custom.ask("GET", f"{DEFINITIONS}/widgets.example.com")[0] == 404
    assert custom.ask("GET", WIDGETS)[0] == 404


def test_finalizers_of_definitions_and_their_objects_need_no_domain(custom):
    held = widget()
    held["metadata"]["finalizers"] = ["hold.example.com"]
    custom.create(WIDGETS, held)
    custom.delete(f"{DEFINITIONS}/widgets.example.com")
    # It has the finalizer that the server gave it.
    custom.patch(f"{DEFINITIONS}/widgets.example.com", {"metadata": {"labels": {"a": "b"}}})
    custom.patch(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})
    custom.wait()
    assert custom.ask("GET", f"{DEFINITIONS}/widgets.example.com")[0] == 404


def test_watchers_see_the_objects_go(custom):
    version = custom.create(WIDGETS, widget())["metadata"]["resourceVersion"]
    stream = custom.raw("GET", f"{WIDGETS}?watch=1&resourceVersion={version}")
    custom.delete(f"{DEFINITIONS}/widgets.example.com")
    (event,) = custom.read(stream, events=1)
    assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "w")


def test_an_end_that_was_interrupted_goes_on():
    with serving() as api:
        held = widget()
        held["metadata"]["finalizers"] = ["example.com/hold"]
        api.create(DEFINITIONS, definition())
        api.create(WIDGETS, held)
        api.delete(f"{DEFINITIONS}/widgets.example.com")
        api.runner.run(api.server.close())
        api.patch(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})
        again = Api(api.runner, Context(api.context.store))
        again.wait()
        assert again.ask("GET", f"{DEFINITIONS}/widgets.example.com")[0] == 404
        again.runner.run(again.server.close())


def test_they_are_served_again_after_a_restart(custom):
    custom.create(WIDGETS, widget())
    again = ApiServer(Context(custom.context.store))
    assert again.context.registry.find("example.com", "v1", "widgets") is not None


def test_defaults_that_come_later_are_read_too(custom):
    custom.create(WIDGETS, widget())
    place = f"{DEFINITIONS}/widgets.example.com"
    changed = custom.get(place)
    spec = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["colour"] = {"type": "string", "default": "red"}
    custom.ask("PUT", place, changed)
    assert custom.get(f"{WIDGETS}/w")["spec"]["colour"] == "red"
    assert custom.get(WIDGETS)["items"][0]["spec"]["colour"] == "red"


def test_a_name_belongs_to_one_definition_of_a_group(api):
    """The second one waits until the first is gone; what is served keeps its names."""
    api.create(DEFINITIONS, definition())
    other = definition()
    other["metadata"]["name"] = "gadgets.example.com"
    other["spec"]["names"] = {"kind": "Widget", "plural": "gadgets", "shortNames": ["gd", "wd"]}
    made = api.create(DEFINITIONS, other)
    said = {each["type"]: (each["status"], each["reason"], each["message"]) for each in made["status"]["conditions"]}
    assert said == {
        "NamesAccepted": ("False", "ListKindConflict", '"WidgetList" is already in use'),
        "Established": ("False", "NotAccepted", "not all names are accepted"),
    }
    gadgets = WIDGETS.replace("widgets", "gadgets")
    assert api.ask("GET", gadgets)[0] == 404
    renamed = api.patch(f"{DEFINITIONS}/gadgets.example.com", {"spec": {"names": {"shortNames": ["gd"]}}})
    assert renamed["status"]["acceptedNames"]["shortNames"] == ["gd"]
    api.delete(f"{DEFINITIONS}/widgets.example.com")
    for _ in range(100):
        api.wait(0.01)
        if api.ask("GET", gadgets)[0] == 200:
            break
    api.create(gadgets, widget())
    third = definition()
    third["metadata"]["name"] = "dials.example.com"
    third["spec"]["names"] = {"kind": "Dial", "plural": "dials"}
    api.create(DEFINITIONS, third)
    kept = api.patch(f"{DEFINITIONS}/dials.example.com", {"spec": {"names": {"shortNames": ["gd"]}}})
    assert {each["type"]: each["status"] for each in kept["status"]["conditions"]} == {
        "NamesAccepted": "False",
        "Established": "True",
    }
    (found,) = [each for each in api.get("/apis/example.com/v1")["resources"] if each["name"] == "dials"]
    assert "shortNames" not in found


def test_scales_are_applied(custom):
    custom.create(f"{WIDGETS}?fieldManager=maker", widget(replicas=2))
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": 3}}
    assert custom.refusal("PATCH", f"{WIDGETS}/w/scale?fieldManager=me", scale, content_type=APPLY)[0] == 409
    applied = custom.patch(f"{WIDGETS}/w/scale?fieldManager=me&force=true", scale, APPLY)
    assert (applied["kind"], applied["spec"]) == ("Scale", {"replicas": 3})
    owners = {each["manager"]: each for each in custom.get(f"{WIDGETS}/w")["metadata"]["managedFields"]}
    assert owners["me"] == {
        "manager": "me",
        "operation": "Apply",
        "apiVersion": "example.com/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
        "subresource": "scale",
    }
    assert "f:replicas" not in owners["maker"]["fieldsV1"]["f:spec"]
    # The object itself may be applied without its replicas, and leaves them alone.
    assert custom.patch(f"{WIDGETS}/w?fieldManager=maker2&force=true", widget(size=5), APPLY)["spec"]["replicas"] == 3


def test_a_configuration_applied_in_another_version_gives_up_what_it_names_no_more(api):
    made = definition(versions=("v1", "v2"))
    api.create(DEFINITIONS, made)
    named = {**widget(size=1), "metadata": {"name": "w", "finalizers": ["example.com/a"]}}
    first = api.patch(f"{WIDGETS}/w?fieldManager=me", named, APPLY)
    other = {**widget(size=1), "apiVersion": "example.com/v2"}
    second = api.patch(f"{WIDGETS.replace('v1', 'v2')}/w?fieldManager=me", other, APPLY)
    assert "finalizers" not in second["metadata"]
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert second["spec"]["size"] == 1
