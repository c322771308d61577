"""Creating, reading, replacing and deleting objects."""

import pytest

from tests.server.api import CLAIMS, MAPS, PODS, claim, config_map, named, pod, serving

BOTH_FORMS = True


def test_what_is_created_can_be_read(api):
    made = api.create(CLAIMS, claim())
    assert made["metadata"]["uid"]
    assert made["metadata"]["creationTimestamp"]
    assert made["spec"]["devices"]["requests"][0]["exactly"]["allocationMode"] == "ExactCount"
    assert api.get(f"{CLAIMS}/c") == made


def test_the_same_name_twice_is_refused(api):
    api.create(CLAIMS, claim())
    assert api.refusal("POST", CLAIMS, claim()) == (409, "AlreadyExists", [])


def test_generated_names_are_new_ones(api):
    names = {api.create(CLAIMS, claim("", generateName="gen-"))["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("gen-") and len(name) == 9 for name in names)


def test_a_generated_name_that_is_taken_is_drawn_again():
    suffixes = iter(["aaaaa", "aaaaa", "bbbbb"])
    with serving(new_suffix=lambda: next(suffixes)) as api:
        first, second = (api.create(MAPS, config_map("", generateName="g-"))["metadata"]["name"] for _ in range(2))
        assert (first, second) == ("g-aaaaa", "g-bbbbb")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/v1/namespaces/nowhere/configmaps", 404),
        ("/api/v1/namespaces/default/nothings", 404),
        ("/apis/no.such.group/v1/things", 404),
        ("/api/v1/configmaps", 405),
    ],
)
def test_a_place_that_is_not_there(api, path, code):
    assert api.ask("POST", path, config_map())[0] == code


def test_an_object_says_its_own_namespace(api):
    assert api.refusal("POST", MAPS, config_map(namespace="other"))[:2] == (400, "BadRequest")


def test_an_object_to_be_created_has_no_version(api):
    assert api.refusal("POST", MAPS, config_map(resourceVersion="5"))[0] == 400


class TestUpdates:
    def test_a_stale_version_is_a_conflict(self, api):
        first = api.create(MAPS, config_map())
        api.put(f"{MAPS}/m", {**first, "data": {"a": "2"}})
        assert api.refusal("PUT", f"{MAPS}/m", {**first, "data": {"a": "3"}}) == (409, "Conflict", [])

    def test_another_uid_is_a_conflict(self, api):
        api.create(MAPS, config_map())
        assert api.refusal("PUT", f"{MAPS}/m", config_map(uid="other"))[0] == 409

    def test_no_change_is_no_write(self, api):
        first = api.create(MAPS, config_map())
        assert api.put(f"{MAPS}/m", first)["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    def test_the_name_of_the_path_holds(self, api):
        api.create(MAPS, config_map())
        assert api.refusal("PUT", f"{MAPS}/m", config_map("other"))[0] == 400

    def test_nothing_is_created_by_an_update(self, api):
        assert api.refusal("PUT", f"{MAPS}/m", config_map())[:2] == (404, "NotFound")

    def test_except_where_clients_write_without_asking(self, api):
        path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
        code, made = api.ask("PUT", path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})
        assert (code, made["spec"]["holderIdentity"]) == (201, "a")

    def test_generation_counts_changes_of_the_spec(self, api):
        made = api.create(PODS, pod())
        labelled = api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
        changed = api.patch(f"{PODS}/p", {"spec": {"activeDeadlineSeconds": 5}})
        assert [o["metadata"]["generation"] for o in (made, labelled, changed)] == [1, 1, 2]


class TestDryRun:
    def test_nothing_is_kept(self, api):
        code, made = api.ask("POST", f"{MAPS}?dryRun=All", config_map())
        assert code == 201
        assert "resourceVersion" not in made["metadata"]
        assert api.ask("GET", f"{MAPS}/m")[0] == 404

    def test_neither_of_an_update_nor_of_a_deletion(self, api):
        api.create(MAPS, config_map())
        assert api.put(f"{MAPS}/m?dryRun=All", config_map(data={"a": "2"}))["data"] == {"a": "2"}
        api.delete(f"{MAPS}/m?dryRun=All")
        assert api.get(f"{MAPS}/m")["data"] == {"a": "1"}

    def test_other_words_are_refused(self, api):
        assert api.refusal("POST", f"{MAPS}?dryRun=Some", config_map()) == (422, "Invalid", ["dryRun"])


NONSENSE = {"metadata": {"name": "m"}, "data": {"a": "1"}, "nonsense": 1}


class TestUnknownFields:
    def test_are_dropped_with_a_warning(self, api):
        assert "nonsense" not in api.create(MAPS, NONSENSE)
        assert api.warnings == ['unknown field "nonsense"']

    def test_or_in_silence(self, api):
        api.create(f"{MAPS}?fieldValidation=Ignore", NONSENSE)
        assert api.warnings == []

    def test_or_refused(self, api):
        code, answer = api.ask("POST", f"{MAPS}?fieldValidation=Strict", NONSENSE)
        assert (code, answer["reason"]) == (400, "BadRequest")
        assert 'unknown field "nonsense"' in answer["message"]

    def test_a_wrong_type_is_refused_in_any_case(self, api):
        assert api.refusal("POST", f"{MAPS}?fieldValidation=Ignore", {**NONSENSE, "data": 5})[0] == 400

    def test_a_member_given_twice_counts_by_its_last(self, api):
        text = b'{"metadata":{"name":"m"},"data":{"a":"1"},"data":{"a":"2"}}'
        assert api.create(MAPS, text)["data"] == {"a": "2"}
        assert api.warnings == ['duplicate field "data"']
        assert api.refusal("POST", f"{MAPS}?fieldValidation=Strict", text)[0] == 400


class TestDeletion:
    def test_gone_is_gone(self, api):
        made = api.create(CLAIMS, claim())
        assert api.delete(f"{CLAIMS}/c")["metadata"]["uid"] == made["metadata"]["uid"]
        assert api.ask("GET", f"{CLAIMS}/c")[0] == 404

    def test_some_kinds_answer_with_a_status(self, api):
        made = api.create(MAPS, config_map())
        answer = api.delete(f"{MAPS}/m")
        assert (answer["kind"], answer["status"]) == ("Status", "Success")
        assert answer["details"] == {"name": "m", "kind": "configmaps", "uid": made["metadata"]["uid"]}

    @pytest.mark.parametrize("member", ["uid", "resourceVersion"])
    def test_preconditions(self, api, member):
        made = api.create(MAPS, config_map())
        options = {"kind": "DeleteOptions", "apiVersion": "v1"}
        assert api.refusal("DELETE", f"{MAPS}/m", {**options, "preconditions": {member: "7"}})[0] == 409
        api.delete(f"{MAPS}/m", {**options, "preconditions": {member: made["metadata"][member]}})

    def test_a_finalizer_holds_an_object(self, api):
        api.create(CLAIMS, claim(finalizers=["example.com/hold"]))
        marked = api.delete(f"{CLAIMS}/c")
        assert marked["metadata"]["deletionTimestamp"]
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
        again = api.delete(f"{CLAIMS}/c")
        assert again["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
        api.patch(f"{CLAIMS}/c", {"metadata": {"finalizers": None}})
        assert api.ask("GET", f"{CLAIMS}/c")[0] == 404

    def test_no_finalizer_is_added_to_what_is_going(self, api):
        api.create(CLAIMS, claim(finalizers=["example.com/hold"]))
        api.delete(f"{CLAIMS}/c")
        refusal = api.refusal(
            "PATCH",
            f"{CLAIMS}/c",
            {"metadata": {"finalizers": ["example.com/hold", "example.com/new"]}},
            content_type="application/merge-patch+json",
        )
        assert refusal == (422, "Invalid", ["metadata.finalizers"])

    @pytest.mark.parametrize(
        ("policy", "finalizers"), [("Orphan", ["orphan"]), ("Foreground", ["foregroundDeletion"]), ("Background", None)]
    )
    def test_what_becomes_of_dependents_is_kept_as_a_finalizer(self, api, policy, finalizers):
        api.create(CLAIMS, claim())
        assert api.delete(f"{CLAIMS}/c?propagationPolicy={policy}")["metadata"].get("finalizers") == finalizers

    def test_a_policy_that_is_none(self, api):
        api.create(CLAIMS, claim())
        assert api.refusal("DELETE", f"{CLAIMS}/c?propagationPolicy=Nonsense")[0] == 422

    def test_a_selection_of_a_collection(self, api):
        for name, labels in (("a", {}), ("b", {"x": "y"}), ("c", {"x": "y"})):
            api.create(MAPS, config_map(name, labels=labels))
        assert named(api.delete(f"{MAPS}?labelSelector=x%3Dy")) == ["b", "c"]
        assert named(api.get(MAPS)) == ["a"]


class TestPodDeletion:
    def test_a_pod_without_a_node_goes_at_once(self, api):
        api.create(PODS, pod())
        api.delete(f"{PODS}/p")
        assert api.ask("GET", f"{PODS}/p")[0] == 404

    def test_a_pod_on_a_node_gets_its_grace(self, api):
        api.create(PODS, pod(nodeName="n1"))
        marked = api.delete(f"{PODS}/p")["metadata"]
        assert marked["deletionGracePeriodSeconds"] == 30
        assert marked["generation"] == 2
        shorter = api.delete(f"{PODS}/p?gracePeriodSeconds=5")["metadata"]
        assert shorter["deletionGracePeriodSeconds"] == 5
        assert shorter["deletionTimestamp"] < marked["deletionTimestamp"]
        longer = api.delete(f"{PODS}/p?gracePeriodSeconds=50")["metadata"]
        assert longer == shorter
        api.delete(f"{PODS}/p?gracePeriodSeconds=0")
        assert api.ask("GET", f"{PODS}/p")[0] == 404

    def test_a_negative_grace_is_a_second(self, api):
        assert api.create(PODS, pod(terminationGracePeriodSeconds=-1))["spec"]["terminationGracePeriodSeconds"] == 1
        changed = api.get(f"{PODS}/p")
        changed["spec"]["terminationGracePeriodSeconds"] = -1
        assert api.ask("PUT", f"{PODS}/p", changed)[1]["spec"]["terminationGracePeriodSeconds"] == 1
        templates = "/api/v1/namespaces/default/podtemplates"
        template = {"metadata": {"name": "t"}, "template": {"spec": pod(terminationGracePeriodSeconds=-1)["spec"]}}
        assert api.create(templates, template)["template"]["spec"]["terminationGracePeriodSeconds"] == -1

    def test_a_pod_that_is_done_needs_none(self, api):
        api.create(PODS, pod(nodeName="n1"))
        api.patch(f"{PODS}/p/status", {"status": {"phase": "Succeeded"}})
        api.delete(f"{PODS}/p")
        assert api.ask("GET", f"{PODS}/p")[0] == 404


OLD_CLAIM = {
    "metadata": {"name": "c"},
    "spec": {"devices": {"requests": [{"name": "g", "deviceClassName": "gpu"}]}},
}


class TestVersions:
    def test_in_with_one_and_out_with_another(self, api):
        beta = CLAIMS.replace("/v1/", "/v1beta1/")
        api.create(beta, OLD_CLAIM)
        assert "deprecated" in api.warnings[0]
        assert api.get(f"{CLAIMS}/c")["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu"
        shown = api.get(f"{beta}/c")
        assert shown["apiVersion"] == "resource.k8s.io/v1beta1"
        assert shown["spec"]["devices"]["requests"][0]["deviceClassName"] == "gpu"
        assert named(api.get(beta)) == ["c"]

    def test_a_version_with_the_same_fields_is_spliced(self, api):
        rules = "/apis/resource.k8s.io/{}/devicetaintrules"
        body = {"metadata": {"name": "r"}, "spec": {"taint": {"key": "example.com/t", "effect": "NoSchedule"}}}
        api.create(rules.format("v1"), body)
        for version in ("v1", "v1beta2", "v1alpha3"):
            path = rules.format(version)
            assert api.get(f"{path}/r")["apiVersion"] == f"resource.k8s.io/{version}"
            assert api.get(path)["apiVersion"] == f"resource.k8s.io/{version}"
            assert api.get(path)["items"][0]["spec"]["taint"]["key"] == "example.com/t"

    def test_events_have_two_faces(self, api):
        core, new = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
        api.create(core, {"metadata": {"name": "e"}, "involvedObject": {"name": "p"}, "message": "hello"})
        shown = api.get(f"{new}/e")
        assert (shown["apiVersion"], shown["note"], shown["regarding"]) == ("events.k8s.io/v1", "hello", {"name": "p"})
        newer = {"eventTime": "2026-01-01T00:00:00.000000Z", "action": "Bind", "reason": "R", "type": "Normal"}
        reporter = {"reportingController": "example.com/c", "reportingInstance": "c-1"}
        api.create(new, {"metadata": {"name": "f"}, "regarding": {"name": "q"}, "note": "bye", **newer, **reporter})
        assert api.get(f"{core}/f")["message"] == "bye"
        assert named(api.get(f"{new}?fieldSelector=regarding.name%3Dq")) == ["f"]
        assert api.refusal("PUT", f"{new}/e", {**shown, "note": "changed"})[2] == ["message"]
        api.patch(f"{new}/e", {"metadata": {"labels": {"a": "b"}}})
        assert api.get(f"{core}/e")["metadata"]["labels"] == {"a": "b"}
