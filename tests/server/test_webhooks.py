"""Admission webhooks over HTTPS: what they are told, what their answers do, and what bad ones cannot do."""

import asyncio

import msgspec
import pytest

from dray.server import webhook_services as services
from dray.server.requests import Request
from tests.server.api import MAPS, config_map
from tests.server.hooks import GROUP, HANGS, bomb, patch


def test_a_denial_in_the_words_of_kubernetes(hooks):
    def answer(request):
        return {"allowed": request["object"]["data"]["a"] == "1", "status": {"message": "not 1", "code": 403}}

    hooks.add("validating", "deny", answer)
    hooks.api.create(MAPS, config_map("m"))
    code, refused = hooks.api.ask("POST", MAPS, config_map("n", {"a": "2"}))
    assert (code, refused["message"]) == (403, 'admission webhook "deny.example.com" denied the request: not 1')
    asked = hooks.asked[0]
    assert asked["operation"] == "CREATE"
    assert asked["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert asked["userInfo"]["username"] == "system:admin"
    assert (asked["oldObject"], asked["dryRun"]) == (None, False)


def test_patches_in_order_and_again_where_asked_for(hooks):
    def count(request):
        return patch({"op": "add", "path": "/data/size", "value": str(len(request["object"]["data"]))})

    hooks.add("mutating", "a", count, reinvocationPolicy="IfNeeded")
    hooks.add("mutating", "b", lambda request: patch({"op": "add", "path": "/data/b", "value": "x"}))
    assert hooks.api.create(MAPS, config_map("m"))["data"] == {"a": "1", "b": "x", "size": "3"}
    assert len(hooks.asked) == 3


def test_warnings_annotations_and_deletions(hooks):
    hooks.add("validating", "warn", lambda request: {"allowed": request["operation"] != "DELETE", "warnings": ["old"]})
    hooks.api.create(MAPS, config_map("m"))
    assert hooks.api.warnings == ["old"]
    assert hooks.api.ask("DELETE", f"{MAPS}/m")[0] == 400
    assert hooks.asked[-1]["object"] is None
    assert hooks.asked[-1]["oldObject"]["metadata"]["name"] == "m"


def test_conditions_and_selectors_spare_the_call(hooks):
    deny = {"allowed": False}
    condition = {"name": "c", "expression": "request.userInfo.username == 'nobody'"}
    hooks.add("validating", "a", lambda request: deny, matchConditions=[condition])
    hooks.add("validating", "b", lambda request: deny, objectSelector={"matchLabels": {"a": "b"}})
    hooks.add("validating", "c", lambda request: deny, namespaceSelector={"matchLabels": {"a": "b"}})
    hooks.api.create(MAPS, config_map("m"))
    assert hooks.asked == []


def hang(request):
    return HANGS


BAD = {
    "hangs": (hang, "context deadline exceeded"),
    "large": (lambda request: b" " * 10_000_000, "more than"),
    "packed": (bomb, "compressed"),
    "lies": (lambda request: {"allowed": True, "uid": "other"}, "expected response.uid"),
    "nonsense": (lambda request: b"[[[", "cannot be read"),
    "typed": (lambda request: {"allowed": "yes"}, "cannot be read"),
    "bomb": (
        lambda request: patch(
            {"op": "add", "path": "/data/a", "value": "x" * 1000},
            *({"op": "copy", "from": "/data", "path": f"/data/{index}"} for index in range(40)),
        ),
        "patch",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_webhook_fails_its_own_writes_only(hooks, kind):
    answer, said = BAD[kind]
    hooks.add("mutating", kind, answer, timeoutSeconds=1)
    code, refused = hooks.api.ask("POST", MAPS, config_map("m"))
    assert code == 500
    assert said in refused["message"]
    hooks.api.create(MAPS.replace("configmaps", "secrets"), {"metadata": {"name": "s"}})


def test_a_webhook_may_be_passed_over(hooks):
    hooks.add("validating", "large", BAD["large"][0], failurePolicy="Ignore")
    hooks.api.create(MAPS, config_map("m"))
    text = hooks.api.raw("GET", "/metrics").body.decode()
    assert 'apiserver_admission_webhook_fail_open_count_total{name="large.example.com",type="validating"} 1.0' in text


def test_others_are_served_while_one_is_waited_for(hooks):
    hooks.add("validating", "hangs", hang, timeoutSeconds=30)

    async def both():
        handle = hooks.api.server.handle

        def post(path, body):
            return Request("POST", path, "", {"content-type": "application/json"}, msgspec.json.encode(body))

        slow = asyncio.create_task(handle(post(MAPS, config_map("m"))))
        await hooks.until_asked()
        quick = await handle(post(MAPS.replace("configmaps", "secrets"), {"metadata": {"name": "s"}}))
        assert not slow.done()
        hooks.over.set()
        return quick.code, (await slow).code

    assert hooks.api.runner.run(both()) == (201, 400)


def test_a_service_is_reached_by_its_external_name(hooks):
    service = {"namespace": "default", "name": "hook", "path": "/svc", "port": hooks.port}
    client = {"service": service, "caBundle": hooks.bundle}
    hooks.add("validating", "svc", lambda request: {"allowed": False}, clientConfig=client)
    code, refused = hooks.api.ask("POST", MAPS, config_map("m"))
    assert (code, 'service "hook" not found' in refused["message"]) == (500, True)
    spec = {"type": "ExternalName", "externalName": "localhost"}
    hooks.api.create("/api/v1/namespaces/default/services", {"metadata": {"name": "hook"}, "spec": spec})
    code, refused = hooks.api.ask("POST", MAPS, config_map("m"))
    said = 'admission webhook "svc.example.com" denied the request without explanation'
    assert (code, refused["message"]) == (400, said)


def test_a_service_stands_for_its_endpoints(api):
    ports = [{"port": 443, "targetPort": 8443}]
    api.create("/api/v1/namespaces/default/services", {"metadata": {"name": "hook"}, "spec": {"ports": ports}})
    with pytest.raises(services.NoAddress, match='no endpoints available for service "hook"'):
        services.resolve(api.context, "default", "hook", 443)
    api.create(
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        {
            "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["10.0.0.1"], "conditions": {"ready": False}},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": True}},
            ],
            "ports": [{"name": "", "port": 8443, "protocol": "TCP"}],
        },
    )
    assert services.resolve(api.context, "default", "hook", 443) == ("10.0.0.2", 8443)
    with pytest.raises(services.NoAddress, match="no service port 80"):
        services.resolve(api.context, "default", "hook", 80)


def test_a_certificate_of_somebody_else_is_not_trusted(hooks):
    client = {"url": f"https://127.0.0.1:{hooks.port}/x"}
    hooks.add("validating", "x", lambda request: {"allowed": True}, clientConfig=client)
    code, refused = hooks.api.ask("POST", MAPS, config_map("m"))
    assert code == 500
    assert "certificate" in refused["message"].lower()


def test_nothing_is_kept_of_what_webhooks_send(hooks):
    url = hooks.client("named")["url"].replace("127.0.0.1", "localhost")
    hooks.add("validating", "named", lambda _: {"allowed": True}, clientConfig={**hooks.client("named"), "url": url})
    for name in ("a", "b"):
        hooks.api.create(MAPS, config_map(name))
    assert hooks.cookies == [{}, {}]


def test_the_first_version_of_reviews_that_is_known_is_sent(hooks):
    def answer(_):
        return {**patch({"op": "add", "path": "/data/b", "value": "x"}), "uid": "", "patchType": None}

    hooks.add("mutating", "old", answer, admissionReviewVersions=["v9", "v1beta1", "v1"])
    assert hooks.api.create(MAPS, config_map("m"))["data"] == {"a": "1", "b": "x"}
    assert hooks.versions == ["admission.k8s.io/v1beta1"]


@pytest.mark.parametrize(
    ("kind", "answer", "said"),
    [
        ("validating", patch({"op": "add", "path": "/data/b", "value": "x"}), "may not return response.patch"),
        ("validating", {"allowed": True, "patchType": "JSONPatch"}, "may not return response.patchType"),
        ("mutating", {"allowed": True, "patchType": "JSONPatch"}, "response.patchType but not response.patch"),
        ("mutating", {"allowed": True, "patch": "W10="}, "response.patch but not response.patchType"),
    ],
)
def test_patches_that_v1_does_not_allow(hooks, kind, answer, said):
    hooks.add(kind, "patches", lambda _: answer)
    code, refused = hooks.api.ask("POST", MAPS, config_map("m"))
    assert (code, said in refused["message"]) == (500, True)


@pytest.mark.parametrize(
    ("versions", "causes"),
    [
        (["v1beta1"], []),
        (["v1beta1", "v1", "v2"], []),
        (["v2"], ["webhooks[0].admissionReviewVersions"]),
        (["v1", "v1"], ["webhooks[0].admissionReviewVersions[1]"]),
    ],
)
def test_versions_of_reviews_are_checked(hooks, versions, causes):
    webhook = {"name": "a.b.c", "clientConfig": hooks.client("a"), "sideEffects": "None"}
    body = {"metadata": {"name": "c"}, "webhooks": [{**webhook, "admissionReviewVersions": versions}]}
    code, answer = hooks.api.ask("POST", f"{GROUP}/validatingwebhookconfigurations", body)
    found = (answer.get("details") or {}).get("causes") or []
    assert (code, [each["field"] for each in found]) == (422 if causes else 201, causes)


def test_configurations_are_checked(hooks):
    body = {"metadata": {"name": "c"}, "webhooks": [{"name": "a.b", "clientConfig": {"url": "http://x/?a"}}]}
    code, _, fields = hooks.api.refusal("POST", f"{GROUP}/validatingwebhookconfigurations", body)
    assert code == 422
    assert [field.removeprefix("webhooks[0].") for field in fields] == [
        "name",
        "admissionReviewVersions",
        "sideEffects",
        "clientConfig.url",
        "clientConfig.url",
    ]
