"""The ServiceAccount plug-in: which pods get a token, and which are refused."""

import asyncio

import msgspec

from dray.server.context import Context
from dray.server.requests import Request
from dray.store.memory import MemoryStore
from tests.server.api import PODS, Api, pod

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"


def mounts(made, members="containers"):
    return [[(each["name"], each["mountPath"]) for each in one["volumeMounts"]] for one in made["spec"][members]]


def has_token(made):
    return "volumes" in made["spec"] or any("volumeMounts" in each for each in made["spec"]["containers"])


def test_a_pod_gets_a_token_of_its_account_in_every_container(api):
    containers = [{"name": name, "image": "x"} for name in "ab"]
    made = api.create(PODS, pod("p", containers=containers, initContainers=[{"name": "i", "image": "x"}]))
    (volume,) = made["spec"]["volumes"]
    name = volume["name"]
    assert name.startswith("kube-api-access-")
    assert len(name) == len("kube-api-access-") + 5
    assert volume["projected"] == {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                    ]
                }
            },
        ],
    }
    assert mounts(made) == [[(name, PLACE)], [(name, PLACE)]]
    assert mounts(made, "initContainers") == [[(name, PLACE)]]
    assert all(each["volumeMounts"][0]["readOnly"] for each in made["spec"]["containers"])


def test_a_container_that_has_something_there_keeps_it(api):
    own = {"name": "a", "image": "x", "volumeMounts": [{"name": "mine", "mountPath": PLACE}]}
    volumes = [{"name": "mine", "emptyDir": {}}]
    made = api.create(PODS, pod("one", containers=[own], volumes=volumes))
    assert mounts(made) == [[("mine", PLACE)]]
    assert [each["name"] for each in made["spec"]["volumes"]] == ["mine"]
    made = api.create(PODS, pod("two", containers=[own, {"name": "b", "image": "x"}], volumes=volumes))
    added = made["spec"]["volumes"][1]["name"]
    assert mounts(made) == [[("mine", PLACE)], [(added, PLACE)]]


def test_a_copied_pod_gets_no_second_volume(api):
    first = api.create(PODS, pod("first"))
    volumes = first["spec"]["volumes"]
    made = api.create(PODS, pod("copy", volumes=volumes))
    assert made["spec"]["volumes"] == volumes
    assert mounts(made) == [[(volumes[0]["name"], PLACE)]]


def test_the_pod_and_then_its_account_have_the_say(api):
    shy = {"metadata": {"name": "shy"}, "automountServiceAccountToken": False, "imagePullSecrets": [{"name": "r"}]}
    api.create(ACCOUNTS, shy)
    assert not has_token(api.create(PODS, pod("p0", automountServiceAccountToken=False)))
    made = api.create(PODS, pod("p1", serviceAccountName="shy"))
    assert not has_token(made)
    assert made["spec"]["imagePullSecrets"] == [{"name": "r"}]
    assert has_token(api.create(PODS, pod("p2", serviceAccountName="shy", automountServiceAccountToken=True)))


def test_a_mirror_pod_is_left_alone(api):
    mirror = pod("m", nodeName="n")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "h", "kubernetes.io/config.source": "file"}
    assert not has_token(api.create(PODS, mirror))


def test_an_account_must_be_there(api):
    code, answer = api.ask("POST", PODS, pod(serviceAccountName="none"))
    assert (code, answer["reason"]) == (403, "Forbidden")
    assert answer["message"].endswith('error looking up service account default/none: serviceaccount "none" not found')
    api.delete(f"{ACCOUNTS}/default")
    assert api.refusal("POST", PODS, pod())[:2] == (403, "Forbidden")


def test_a_pod_waits_for_the_account_of_a_new_namespace(api):
    api.create("/api/v1/namespaces", {"metadata": {"name": "new"}})
    account = msgspec.json.encode({"metadata": {"name": "default"}})
    body = pod()
    body["metadata"].pop("namespace", None)

    def asked(path, document):
        headers = {"content-type": "application/json"}
        return api.server.handle(Request("POST", path, "", headers, document, api.user))

    async def both():
        waiting = asyncio.create_task(asked("/api/v1/namespaces/new/pods", msgspec.json.encode(body)))
        await asyncio.sleep(0)
        await asked("/api/v1/namespaces/new/serviceaccounts", account)
        return await waiting

    assert api.runner.run(both()).code == 201


def test_without_the_plug_in_pods_are_taken_as_they_are():
    with asyncio.Runner() as runner:
        api = Api(runner, Context(MemoryStore(), disabled_plugins=frozenset({"ServiceAccount"})))
        assert not has_token(api.create(PODS, pod(serviceAccountName="none")))
        runner.run(api.server.close())
