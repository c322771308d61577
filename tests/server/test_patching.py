"""Patches of every kind, and who owns what afterwards."""

import msgspec
import pytest

from tests.server.api import APPLY, CLAIMS, MAPS, MERGE, PODS, STRATEGIC, claim, config_map, pod

JSON_PATCH = "application/json-patch+json"


def test_a_merge_patch(api):
    api.create(MAPS, config_map(data={"a": "1", "b": "2"}))
    assert api.patch(f"{MAPS}/m", {"data": {"a": None, "c": "3"}})["data"] == {"b": "2", "c": "3"}


def test_a_json_patch(api):
    api.create(MAPS, config_map())
    patched = api.patch(f"{MAPS}/m", [{"op": "replace", "path": "/data/a", "value": "2"}], JSON_PATCH)
    assert patched["data"] == {"a": "2"}
    failing = [{"op": "test", "path": "/data/a", "value": "9"}]
    assert api.refusal("PATCH", f"{MAPS}/m", failing, content_type=JSON_PATCH)[0] == 422


def test_a_json_patch_whose_document_grows_into_itself(api):
    api.create(MAPS, config_map())
    growing = [{"op": "move", "from": "/data", "path": "/b"}, {"op": "add", "path": "/data", "value": {}}]
    deeper = [*growing, {"op": "move", "from": "/b", "path": "/data/a"}] * 2000
    patch = [*deeper, {"op": "copy", "from": "/data", "path": "/c"}]
    code, answer = api.ask("PATCH", f"{MAPS}/m", patch, content_type=JSON_PATCH)
    assert (code, answer["message"]) == (400, "the document is nested too deeply")


def test_a_strategic_merge_patch(api):
    api.create(PODS, pod())
    patched = api.patch(f"{PODS}/p", {"spec": {"containers": [{"name": "main", "image": "y"}]}}, STRATEGIC)
    assert patched["spec"]["containers"][0]["image"] == "y"
    assert patched["spec"]["containers"][0]["terminationMessagePath"]


def test_the_version_in_a_patch_is_a_condition(api):
    api.create(MAPS, config_map())
    body = {"metadata": {"resourceVersion": "1"}, "data": {"a": "2"}}
    assert api.refusal("PATCH", f"{MAPS}/m", body, content_type=MERGE)[0] == 409


@pytest.mark.parametrize("kind", ["", "application/json", "text/plain"])
def test_another_kind_of_patch(api, kind):
    api.create(MAPS, config_map())
    assert api.refusal("PATCH", f"{MAPS}/m", {}, content_type=kind)[:2] == (415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", 400),
        (b'{"data": 5}', 422),
        (b'{"metadata": {"name": "other"}}', 400),
        (b'{"metadata": {"labels": {"bad key!": "x"}}}', 422),
    ],
)
def test_a_patch_that_leads_nowhere(api, body, code):
    api.create(MAPS, config_map())
    assert api.ask("PATCH", f"{MAPS}/m", body, content_type=MERGE)[0] == code


def test_a_patch_to_an_old_version(api):
    api.create(CLAIMS, claim())
    beta = CLAIMS.replace("/v1/", "/v1beta1/")
    patched = api.patch(f"{beta}/c", {"metadata": {"labels": {"a": "b"}}})
    assert patched["spec"]["devices"]["requests"][0]["deviceClassName"] == "gpu"


def owners(document):
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in document["metadata"]["managedFields"]
    }


class TestOwners:
    def test_of_what_is_created_and_changed(self, api):
        made = api.create(f"{MAPS}?fieldManager=one", config_map())
        assert owners(made) == {("one", "Update", ""): {"f:data": {".": {}, "f:a": {}}}}
        changed = api.patch(f"{MAPS}/m?fieldManager=two", {"data": {"b": "2"}})
        assert owners(changed)["two", "Update", ""] == {"f:data": {"f:b": {}}}

    def test_clients_are_known_by_their_agent(self, api):
        assert list(owners(api.create(MAPS, config_map(), user_agent="thing/1.0 (x)"))) == [("thing", "Update", "")]

    def test_what_the_server_fills_in_belongs_to_nobody(self, api):
        (fields,) = owners(api.create(f"{PODS}?fieldManager=one", pod())).values()
        assert "f:priority" not in fields["f:spec"]
        assert "f:tolerations" not in fields["f:spec"]
        assert "f:restartPolicy" in fields["f:spec"]

    def test_of_a_status(self, api):
        api.create(f"{PODS}?fieldManager=one", pod())
        changed = api.patch(f"{PODS}/p/status?fieldManager=two", {"status": {"message": "hello"}})
        assert owners(changed)["two", "Update", "status"] == {"f:status": {"f:message": {}}}

    def test_a_repeated_write_changes_nothing(self, api):
        first = api.create(f"{MAPS}?fieldManager=one", config_map())
        again = api.put(f"{MAPS}/m?fieldManager=one", config_map())
        assert again == first


APPLIED = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}}


class TestApply:
    def apply(self, api, body, query="fieldManager=one"):
        return api.ask("PATCH", f"{MAPS}/m?{query}", msgspec.json.encode(body), content_type=APPLY)

    def test_creates_what_is_not_there(self, api):
        code, made = self.apply(api, APPLIED)
        assert (code, made["data"]) == (201, {"a": "1"})
        assert owners(made) == {("one", "Apply", ""): {"f:data": {"f:a": {}}}}

    def test_takes_away_what_it_no_longer_names(self, api):
        self.apply(api, APPLIED)
        code, changed = self.apply(api, {**APPLIED, "data": {"b": "2"}})
        assert (code, changed["data"]) == (200, {"b": "2"})

    def test_the_same_again_changes_nothing(self, api):
        first = self.apply(api, APPLIED)[1]
        assert self.apply(api, APPLIED) == (200, first)

    def test_two_that_want_the_same_field(self, api):
        self.apply(api, APPLIED)
        code, answer = self.apply(api, {**APPLIED, "data": {"a": "7"}}, "fieldManager=two")
        assert (code, answer["reason"]) == (409, "Conflict")
        assert answer["details"]["causes"][0]["field"] == ".data.a"
        code, taken = self.apply(api, {**APPLIED, "data": {"a": "7"}}, "fieldManager=two&force=true")
        assert (code, taken["data"]) == (200, {"a": "7"})

    def test_yaml_is_what_people_write(self, api):
        text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: one}\n"
        assert api.patch(f"{MAPS}/m?fieldManager=me", text, APPLY)["data"] == {"a": "one"}

    def test_somebody_must_do_it(self, api):
        assert self.apply(api, APPLIED, "")[1]["details"]["causes"][0]["field"] == "fieldManager"

    def test_a_dry_run(self, api):
        assert self.apply(api, APPLIED, "fieldManager=one&dryRun=All")[0] == 201
        assert api.ask("GET", f"{MAPS}/m")[0] == 404

    def test_a_status(self, api):
        api.create(PODS, pod())
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"message": "hello"}}
        applied = api.patch(f"{PODS}/p/status?fieldManager=me", body, APPLY)
        assert applied["status"]["message"] == "hello"
        assert api.refusal("PATCH", f"{PODS}/none/status?fieldManager=me", body, content_type=APPLY)[0] == 404


class TestListsByKey:
    """Lists of kinds beside workloads are merged by their keys too."""

    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"

    def webhook(self, name):
        return {
            "name": name,
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Ignore",
        }

    def configuration(self, *names):
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        return {**kind, "metadata": {"name": "h"}, "webhooks": [self.webhook(name) for name in names]}

    def test_two_managers_own_an_item_each(self, api):
        for manager in ("a", "b"):
            body = self.configuration(f"{manager}.example.com")
            api.patch(f"{self.hooks}/h?fieldManager={manager}", body, kind=APPLY)
        assert [hook["name"] for hook in api.get(f"{self.hooks}/h")["webhooks"]] == ["a.example.com", "b.example.com"]

    def test_a_strategic_patch_adds_an_item(self, api):
        api.create(self.hooks, self.configuration("a.example.com"))
        api.patch(f"{self.hooks}/h", {"webhooks": [self.webhook("b.example.com")]}, kind=STRATEGIC)
        assert {hook["name"] for hook in api.get(f"{self.hooks}/h")["webhooks"]} == {"a.example.com", "b.example.com"}
