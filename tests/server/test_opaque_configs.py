"""Configuration for drivers, checked when claims, templates and classes are written."""

import pytest

from dray.server.admission.opaque_configs import OpaqueConfigs
from dray.server.context import Context
from dray.store.memory import MemoryStore

from .api import CLAIMS, Api

TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


def problem(driver, parameters):
    if driver != "lamps.example.com" or parameters.get("brightness", 0) <= 100:
        return None
    return "brightness", "must be at most 100"


@pytest.fixture
def make_api():
    import asyncio

    with asyncio.Runner() as runner:

        def make(refuses):
            return Api(runner, Context(MemoryStore(), opaque_configs=OpaqueConfigs(problem, refuses)))

        yield make


def entry(brightness, driver="lamps.example.com"):
    return {"opaque": {"driver": driver, "parameters": {"brightness": brightness}}}


def claim_spec(*config):
    exactly = {"deviceClassName": "lamp"}
    return {"devices": {"requests": [{"name": "lamp", "exactly": exactly}], "config": list(config)}}


def named(kind, spec):
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}


def documents(*config):
    return {
        CLAIMS: (named("ResourceClaim", claim_spec(*config)), "spec.devices.config"),
        TEMPLATES: (named("ResourceClaimTemplate", {"spec": claim_spec(*config)}), "spec.spec.devices.config"),
        CLASSES: (named("DeviceClass", {"config": list(config)}), "spec.config"),
    }


@pytest.mark.parametrize("path", [CLAIMS, TEMPLATES, CLASSES])
def test_a_warning_has_the_place_and_the_object_is_stored(make_api, path):
    api = make_api(refuses=False)
    document, place = documents(entry(7), entry(700), entry(700, "other.example.com"))[path]
    api.create(path, document)
    assert api.warnings == [f"{place}[1].opaque.parameters.brightness: must be at most 100"]
    # What stays as it is is not told again; what is written by a change is.
    api.patch(f"{path}/a", {"metadata": {"labels": {"a": "b"}}})
    assert api.warnings == []
    if path == CLASSES:
        api.patch(f"{path}/a", {"spec": {"config": [entry(800)]}})
        assert api.warnings == [f"{place}[0].opaque.parameters.brightness: must be at most 100"]


@pytest.mark.parametrize("path", [CLAIMS, TEMPLATES, CLASSES])
def test_a_server_that_refuses_names_the_field(make_api, path):
    api = make_api(refuses=True)
    document, place = documents(entry(700))[path]
    code, answer = api.ask("POST", path, document)
    assert (code, answer["reason"]) == (422, "Invalid")
    (cause,) = answer["details"]["causes"]
    assert cause["field"] == f"{place}[0].opaque.parameters.brightness"
    assert "must be at most 100" in answer["message"]
    good, _ = documents(entry(7))[path]
    api.create(path, good)
    assert api.warnings == []
