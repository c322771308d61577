"""Conversion webhooks: every version is served from one that is stored, and a bad webhook fails its own requests."""

import asyncio
from contextlib import contextmanager

import msgspec
import pytest

from dray.server.custom import conversion
from dray.server.requests import Request
from tests.server.api import APPLY, MAPS, METADATA, TABLE, config_map, named, serving
from tests.server.hooks import HANGS, HookServer, bomb

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
V1 = "/apis/example.com/v1/namespaces/default/gauges"
V2 = "/apis/example.com/v2/namespaces/default/gauges"
TEXT = {"type": "string"}
# v1 says `hostPort: a:1`, v2 has both in members of their own.
SPECS = {"v1": {"hostPort": TEXT}, "v2": {"host": TEXT, "port": TEXT, "mode": {"type": "string", "default": "tcp"}}}


class Converter(HookServer):
    def __init__(self, api, authority):
        super().__init__(api, authority, "apiextensions.k8s.io", "ConversionReview")
        self.answers["convert"] = convert

    def define(self, *, stored="v1", **changes):
        made = definition(self.client("convert"), stored)
        made["spec"].update(changes)
        return self.api.create(DEFINITIONS, made)


def definition(client, stored="v1"):
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    return {
        "metadata": {"name": "gauges.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Gauge", "plural": "gauges"},
            "scope": "Namespaced",
            "conversion": conversion,
            "versions": [version(name, storage=name == stored) for name in SPECS],
        },
    }


def version(name, *, storage):
    state = {"type": "object", "properties": {"ready": {"type": "boolean"}, "count": {"type": "integer"}}}
    spec = {"type": "object", "properties": {**SPECS[name], "replicas": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": state}}
    field = next(iter(SPECS[name]))
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.count"},
        },
        "selectableFields": [{"jsonPath": f".spec.{field}"}],
        "additionalPrinterColumns": [{"name": field, "type": "string", "jsonPath": f".spec.{field}"}],
    }


def convert(request):
    return {"result": {"status": "Success"}, "convertedObjects": [turned(each) for each in request["objects"]]}


def turned(obj):
    spec, to = dict(obj.get("spec", {})), "v2" if obj["apiVersion"].endswith("v1") else "v1"
    if to == "v2" and "hostPort" in spec:
        spec["host"], _, spec["port"] = spec.pop("hostPort").partition(":")
    elif to == "v1":
        host, port = spec.pop("host", ""), spec.pop("port", "")
        spec = {**spec, **({"hostPort": f"{host}:{port}"} if host or port else {})}
    return {**obj, "apiVersion": f"example.com/{to}", "spec": spec}


def gauge(name="g", at="a:1", **metadata):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Gauge",
        "metadata": {"name": name, **metadata},
        "spec": {"hostPort": at},
    }


def new_gauge(name="g", host="a", port="1", **spec):
    made = {"apiVersion": "example.com/v2", "kind": "Gauge", "metadata": {"name": name}}
    return {**made, "spec": {"host": host, "port": port, **spec}}


@contextmanager
def converting(authority):
    with serving() as api:
        made = Converter(api, authority)
        yield made
        made.close()


@pytest.fixture
def hook(authority):
    with converting(authority) as made:
        made.define()
        yield made


@pytest.fixture
def api(hook):
    return hook.api


def stored(api, name="g"):
    return msgspec.json.decode(api.context.store.get(f"/example.com/gauges/default/{name}").value)


def test_every_version_reads_and_writes_what_is_stored_in_one(api):
    api.create(V1, gauge())
    assert api.get(f"{V2}/g")["spec"] == {"host": "a", "port": "1", "mode": "tcp"}
    made = api.create(V2, new_gauge("h", "b", "2"))
    assert (made["apiVersion"], made["spec"]) == ("example.com/v2", {"host": "b", "port": "2", "mode": "tcp"})
    # What v1 does not know is pruned on the way to it.
    assert (stored(api, "h")["apiVersion"], stored(api, "h")["spec"]) == ("example.com/v1", {"hostPort": "b:2"})
    assert api.get(f"{V1}/h")["spec"] == {"hostPort": "b:2"}
    assert api.put(f"{V2}/g", {**api.get(f"{V2}/g"), "spec": {"host": "z", "port": "9"}})["metadata"]["generation"] == 2
    assert api.patch(f"{V2}/g", {"spec": {"port": "8"}})["spec"]["port"] == "8"
    assert stored(api)["spec"] == {"hostPort": "z:8"}
    assert api.patch(f"{V2}/g/status", {"status": {"ready": True}})["status"] == {"ready": True}
    assert api.get(f"{V1}/g")["status"] == {"ready": True}
    assert api.patch(f"{V2}/g/scale", {"spec": {"replicas": 4}})["spec"]["replicas"] == 4
    assert api.get(f"{V1}/g")["spec"] == {"hostPort": "z:8", "replicas": 4}


def test_lists_are_converted_in_groups_and_selected_after_it(hook, monkeypatch):
    api = hook.api
    for name, at in (("a", "x:1"), ("b", "y:2"), ("c", "x:3")):
        api.create(V1, gauge(name, at))
    assert [item["spec"]["port"] for item in api.get(V2)["items"]] == ["1", "2", "3"]
    assert (len(hook.asked), len(hook.asked[0]["objects"])) == (1, 3)
    assert named(api.get(f"{V2}?fieldSelector=spec.host%3Dx")) == ["a", "c"]
    assert named(api.get(f"{V2}?fieldSelector=spec.host%3Dx&limit=1")) == ["a"]
    assert api.refusal("GET", f"{V1}?fieldSelector=spec.host%3Dx")[0] == 400
    assert [row["cells"][1] for row in api.get(V2, accept=TABLE)["rows"]] == ["x", "y", "x"]
    assert [item["metadata"]["name"] for item in api.get(V2, accept=METADATA)["items"]] == ["a", "b", "c"]
    monkeypatch.setattr(conversion, "_MOST_OBJECTS", 2)
    hook.asked.clear()
    assert named(api.get(V2)) == ["a", "b", "c"]
    assert sorted(len(each["objects"]) for each in hook.asked) == [1, 2]
    deleted = api.delete(f"{V2}?fieldSelector=spec.host%3Dx")
    assert [item["spec"]["port"] for item in deleted["items"]] == ["1", "3"]
    assert named(api.get(V1)) == ["b"]


def test_watches_see_their_version(api):
    api.create(V1, gauge("a", "x:1"))
    since = api.get(V1)["metadata"]["resourceVersion"]
    api.patch(f"{V1}/a", {"spec": {"hostPort": "y:1"}})
    api.delete(f"{V1}/a")
    events = api.watch(f"{V2}?watch=1&resourceVersion={since}", events=2)
    assert [(each["type"], each["object"]["spec"]["host"]) for each in events] == [("MODIFIED", "y"), ("DELETED", "y")]
    selected = api.watch(f"{V2}?watch=1&resourceVersion={since}&fieldSelector=spec.host%3Dx", events=1)
    assert [(each["type"], each["object"]["spec"]["host"]) for each in selected] == [("DELETED", "x")]


def test_owners_of_fields_are_told_in_their_versions(api):
    api.patch(f"{V2}/g?fieldManager=new", new_gauge(), APPLY)
    assert api.refusal("PATCH", f"{V1}/g?fieldManager=old", gauge(at="b:1"), content_type=APPLY)[0] == 409
    api.patch(f"{V1}/g?fieldManager=old&force=true", gauge(at="b:1"), APPLY)
    owners = {each["manager"]: each for each in api.get(f"{V2}/g")["metadata"]["managedFields"]}
    assert owners["old"]["fieldsV1"] == {"f:spec": {"f:hostPort": {}}}
    # The host went to the other one, the port is still shared.
    assert owners["new"]["fieldsV1"] == {"f:spec": {"f:port": {}}}
    assert owners["new"]["apiVersion"] == "example.com/v2"
    # What one of them gives up stays where it is a part of what the other has in its version.
    bare = {**gauge(), "spec": {}}
    assert api.patch(f"{V1}/g?fieldManager=old", bare, APPLY)["spec"] == {"hostPort": "b:1"}


def test_an_update_leaves_the_storage_version_behind(hook):
    """A change of the storage version shows in status.storedVersions; each object follows with its next write."""
    api = hook.api
    api.create(V1, gauge("a"))
    api.create(V1, gauge("b"))
    found = api.get(f"{DEFINITIONS}/gauges.example.com")
    for each in found["spec"]["versions"]:
        each["storage"] = each["name"] == "v2"
    changed = api.put(f"{DEFINITIONS}/gauges.example.com", found)
    assert changed["status"]["storedVersions"] == ["v1", "v2"]
    api.put(f"{V2}/a", api.get(f"{V2}/a"))
    assert [stored(api, name)["apiVersion"] for name in "ab"] == ["example.com/v2", "example.com/v1"]
    assert [item["spec"]["host"] for item in api.get(V2)["items"]] == ["a", "a"]
    assert [item["spec"]["hostPort"] for item in api.get(V1)["items"]] == ["a:1", "a:1"]
    gone = api.put(f"{DEFINITIONS}/gauges.example.com/status", {**changed, "status": {"storedVersions": ["v2"]}})
    assert gone["status"]["storedVersions"] == ["v2"]
    # That the kind is served is still told.
    assert {each["type"] for each in gone["status"]["conditions"]} == {"NamesAccepted", "Established"}
    found["spec"]["versions"] = found["spec"]["versions"][:1]
    found["spec"]["versions"][0]["storage"] = True
    found["metadata"].pop("resourceVersion")
    code, refused = api.ask("PUT", f"{DEFINITIONS}/gauges.example.com", found)
    assert (code, "v2 was previously a storage version" in refused["message"]) == (422, True)


def answered(change):
    """An answer that is good but for one thing."""

    def answer(request):
        good = convert(request)
        change(good["convertedObjects"][0])
        return good

    return answer


def lost(request):
    return {"result": {"status": "Success"}, "convertedObjects": []}


BAD = {
    "large": (lambda request: b" " * 10_000_000, "more than"),
    "packed": (bomb, "compressed"),
    "nonsense": (lambda request: b"[[[", "cannot be read"),
    "lies": (lambda request: {**convert(request), "uid": "other"}, "expected response.uid"),
    "absent": (lambda request: b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}', "no response"),
    "typed": (lambda request: b'{"apiVersion":"v1","kind":"Pod"}', "expected webhook response of"),
    "failed": (lambda request: {"result": {"status": "Failed", "message": "not today"}}, "not today"),
    "silent": (lambda request: {}, "response.result.status was '', not 'Success'"),
    "fewer": (lost, "returned 0 objects, expected 1"),
    "list": (lambda request: {**convert(request), "convertedObjects": [[]]}, "invalid converted object at index 0"),
    "version": (answered(lambda obj: obj.update(apiVersion="example.com/v1")), "invalid groupVersion"),
    "kind": (answered(lambda obj: obj.update(kind="Other")), "invalid kind (expected Gauge, received Other)"),
    "bare": (answered(lambda obj: obj.pop("metadata")), "missing metadata"),
    "name": (answered(lambda obj: obj["metadata"].update(name="h")), "must have the same name: g != h"),
    "uid": (answered(lambda obj: obj["metadata"].update(uid="1")), "must have the same UID"),
    "labels": (answered(lambda obj: obj["metadata"].update(labels={"-": "x"})), "metadata.labels"),
    "numbers": (answered(lambda obj: obj["metadata"].update(labels={"a": 1})), "must be texts"),
}


@pytest.mark.parametrize("kind", BAD)
def test_answers_are_held_to_the_letter(hook, kind):
    hook.api.create(V1, gauge())
    hook.answers["convert"], said = BAD[kind]
    for method, path, body in (
        ("GET", f"{V2}/g", None),
        ("GET", V2, None),
        ("DELETE", f"{V2}/g", None),
        ("PUT", f"{V2}/g", new_gauge()),
    ):
        code, refused = hook.api.ask(method, path, body)
        assert (code, said in refused["message"]) == (500, True), refused["message"]
        assert refused["message"].startswith("conversion webhook for example.com/v1, Kind=Gauge ")
    (event,) = hook.api.watch(f"{V2}?watch=1&timeoutSeconds=5", events=1)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 500)
    assert hook.api.ask("GET", f"{V1}/g")[0] == 200


def test_of_the_metadata_only_labels_and_annotations_are_converted(hook):
    def change(obj):
        labels = {"a": "b"}
        obj["metadata"].update(labels=labels, annotations={"n": "1"}, finalizers=["x/y"], generation=9, junk=1)

    hook.answers["convert"] = answered(change)
    hook.api.create(V1, gauge(annotations={"m": "1"}))
    found = hook.api.get(f"{V2}/g")["metadata"]
    assert (found["labels"], found["annotations"], found["generation"]) == ({"a": "b"}, {"n": "1"}, 1)
    assert "finalizers" not in found
    assert "junk" not in found
    assert named(hook.api.get(f"{V2}?labelSelector=a%3Db")) == ["g"]
    assert named(hook.api.get(f"{V1}?labelSelector=a%3Db")) == []


def deep(request):
    good = convert(request)
    good["convertedObjects"][0]["spec"] = {"host": "DEEP"}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    nested = b"[" * 900 + b"]" * 900
    response = {**good, "uid": request["uid"]}
    return msgspec.json.encode({**body, "response": response}).replace(b'"DEEP"', nested)


STRANGE = {
    "text": answered(lambda obj: obj.update(spec="text", status=7)),
    "lists": answered(lambda obj: obj.update(spec=[1], status=[[]])),
    "null": answered(lambda obj: obj.update(spec=None, status=None)),
    "types": answered(lambda obj: obj.update(spec={"host": {}, "port": 5, "replicas": "x"})),
    "deep": deep,
}


@pytest.mark.parametrize("kind", STRANGE)
def test_objects_of_a_strange_shape_break_nothing(hook, kind, caplog):
    """A conversion is not validated: what is wrong with it shows where it matters."""
    api = hook.api
    api.create(V1, gauge())
    hook.answers["convert"] = STRANGE[kind]
    asked = [
        ("GET", f"{V2}/g", None, {}),
        ("GET", V2, None, {"accept": TABLE}),
        ("GET", f"{V2}?fieldSelector=spec.host%3Da", None, {}),
        ("GET", f"{V2}/g/scale", None, {}),
        ("PATCH", f"{V2}/g", {"metadata": {"labels": {"a": "b"}}}, {"content_type": "application/merge-patch+json"}),
        ("PATCH", f"{V2}/g/scale", {"spec": {"replicas": 1}}, {"content_type": "application/merge-patch+json"}),
        ("PATCH", f"{V2}/g?fieldManager=m&force=true", new_gauge(), {"content_type": APPLY}),
        ("PUT", f"{V2}/g", new_gauge(), {}),
        ("DELETE", f"{V2}/g?dryRun=All", None, {}),
    ]
    for method, path, body, headers in asked:
        code, answer = api.ask(method, path, body, **headers)
        assert code < 500 or "conversion webhook" in answer["message"], (method, path, answer)
    assert not [record for record in caplog.records if record.name == "dray.server"]
    assert api.ask("GET", f"{V1}/g")[0] == 200


def test_a_webhook_of_the_older_review_behind_a_service(authority):
    with converting(authority) as hook:
        made = definition({"service": {"name": "hook", "namespace": "default", "path": "/convert", "port": hook.port}})
        webhook = made["spec"]["conversion"]["webhook"]
        webhook["clientConfig"]["caBundle"] = hook.bundle
        webhook["conversionReviewVersions"] = ["v9", "v1beta1"]
        hook.api.create(DEFINITIONS, made)
        hook.api.create(V1, gauge())
        code, refused = hook.api.ask("GET", f"{V2}/g")
        assert (code, 'service "hook" not found' in refused["message"]) == (500, True)
        spec = {"type": "ExternalName", "externalName": "localhost"}
        hook.api.create("/api/v1/namespaces/default/services", {"metadata": {"name": "hook"}, "spec": spec})
        # Of this version neither the uid nor the kind of the answer counts.
        hook.review = {"apiVersion": "v1", "kind": "Odd"}
        assert hook.api.get(f"{V2}/g")["spec"]["host"] == "a"


def test_a_webhook_that_hangs_is_waited_for_so_long(hook, monkeypatch):
    monkeypatch.setattr(conversion, "SECONDS", 1)
    hook.api.create(V1, gauge())
    hook.answers["convert"] = lambda request: HANGS
    code, refused = hook.api.ask("GET", f"{V2}/g")
    assert (code, "context deadline exceeded" in refused["message"]) == (500, True)


def test_others_are_served_while_a_webhook_hangs(hook):
    hook.api.create(V1, gauge())
    hook.answers["convert"] = lambda request: HANGS

    async def both():
        handle = hook.api.server.handle
        slow = [asyncio.create_task(handle(Request("GET", f"{V2}/g", "", {}, b""))) for _ in range(4)]
        await hook.until_asked(len(slow))
        body = msgspec.json.encode(config_map("m"))
        quick = await handle(Request("POST", MAPS, "", {"content-type": "application/json"}, body))
        own = await handle(Request("GET", f"{V1}/g", "", {}, b""))
        assert not any(each.done() for each in slow)
        hook.over.set()
        return quick.code, own.code, {each.code for each in await asyncio.gather(*slow)}

    assert hook.api.runner.run(both()) == (201, 200, {500})


def test_a_webhook_that_is_gone_does_not_keep_a_definition(hook):
    hook.api.create(V1, gauge())
    hook.answers["convert"] = lambda request: b""
    # The owners of fields in another version keep what they have.
    hook.api.patch(f"{V1}/g", {"spec": {"hostPort": "b:2"}})
    found = hook.api.get(f"{DEFINITIONS}/gauges.example.com")
    for each in found["spec"]["versions"]:
        each["storage"] = each["name"] == "v2"
    hook.api.put(f"{DEFINITIONS}/gauges.example.com", found)
    hook.api.runner.run(hook.runner.cleanup())
    code, refused = hook.api.ask("GET", V2)
    assert code == 500
    assert f"dial tcp 127.0.0.1:{hook.port}: connect: connection refused" in refused["message"]
    hook.api.delete(f"{DEFINITIONS}/gauges.example.com")
    for _ in range(100):
        hook.api.wait(0.02)
        if hook.api.ask("GET", f"{DEFINITIONS}/gauges.example.com")[0] == 404:
            break
    assert hook.api.ask("GET", f"{DEFINITIONS}/gauges.example.com")[0] == 404
    assert hook.api.context.store.get("/example.com/gauges/default/g") is None


def test_admission_sees_the_version_that_a_rule_names(hook):
    api, admissions = hook.api, "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["*"], "resources": ["gauges"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.spec.host != 'evil'"}],
    }
    api.create(f"{admissions}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    bound = {"policyName": "p", "validationActions": ["Deny"]}
    api.create(f"{admissions}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": bound})
    api.create(V1, gauge())
    code, refused = api.ask("POST", V1, gauge("h", "evil:1"))
    assert (code, "denied request" in refused["message"]) == (422, True)
    mutation = {
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{spec: Object.spec{port: '99'}}"},
    }
    spec = {
        "matchConstraints": {"resourceRules": [{**rule, "operations": ["CREATE"]}]},
        "mutations": [mutation],
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
    }
    api.create(f"{admissions}/mutatingadmissionpolicies", {"metadata": {"name": "m"}, "spec": spec})
    bound = {"policyName": "m"}
    api.create(f"{admissions}/mutatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": bound})
    assert api.create(V1, gauge("i"))["spec"] == {"hostPort": "a:99"}


def test_the_stanza_is_checked(hook):
    def fields(changes, **webhook):
        spec = definition(hook.client("convert"))["spec"]
        given = {"strategy": "Webhook", "webhook": {**spec["conversion"]["webhook"], **webhook}, **changes}
        body = {"metadata": {"name": "dials.example.com"}, "spec": {**spec, "conversion": given}}
        body["spec"]["names"] = {"kind": "Dial", "plural": "dials"}
        code, document = hook.api.ask("POST", f"{DEFINITIONS}?dryRun=All", body)
        causes = [cause["field"] for cause in (document.get("details") or {}).get("causes", ())]
        return code, [each.removeprefix("spec.conversion.") for each in causes]

    assert fields({}) == (201, [])
    assert fields({"strategy": "Odd"})[0] == 422
    assert fields({"strategy": "None"})[1] == ["webhookClientConfig", "conversionReviewVersions"]
    assert fields({"webhook": None})[1] == ["webhookClientConfig", "conversionReviewVersions"]
    assert fields({}, conversionReviewVersions=["v9"])[1] == ["conversionReviewVersions"]
    assert fields({}, conversionReviewVersions=["v1", "v1", "V"])[1] == [
        "conversionReviewVersions[1]",
        "conversionReviewVersions[2]",
    ]
    assert fields({}, clientConfig={"url": "http://x"})[1] == ["webhookClientConfig.url"]
    assert fields({}, clientConfig={"url": "https://x", "service": {"name": "a", "namespace": "b"}})[1] == [
        "webhookClientConfig"
    ]
    assert fields({}, clientConfig={"url": "https://x", "caBundle": "AAAA"})[1] == ["webhookClientConfig.caBundle"]
    service = {"clientConfig": {"service": {"name": "a", "namespace": "b"}}, "conversionReviewVersions": ["v1"]}
    spec = {**definition(None)["spec"], "conversion": {"strategy": "Webhook", "webhook": service}}
    made = hook.api.create(
        f"{DEFINITIONS}?dryRun=All",
        {
            "metadata": {"name": "dials.example.com"},
            "spec": {**spec, "names": {"kind": "Dial", "plural": "dials"}},
        },
    )
    assert made["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] == 443


def test_without_a_webhook_only_the_version_changes(authority):
    with converting(authority) as hook:
        hook.define(conversion={"strategy": "None"})
        hook.api.create(V1, gauge())
        # Its one member is not known there, and pruned.
        assert hook.api.get(f"{V2}/g")["spec"] == {"mode": "tcp"}
        assert hook.api.create(V2, new_gauge("h", replicas=2))["spec"] == {"replicas": 2, "mode": "tcp"}
        assert stored(hook.api, "h")["spec"] == {"replicas": 2}
        assert hook.asked == []
