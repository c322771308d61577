"""The default queue of a namespace, namespaces whose pods must name a queue, and Unix accounts of namespaces."""

from __future__ import annotations

import pytest

from dray.client.foreign_kinds import definitions
from dray.server.admission.queues import QUEUE_LABEL, REQUIRED_LABEL
from dray.server.admission.unix_accounts import GROUP, USER
from dray.testing.objects import job, namespace, pod
from tests.server.api import serving

MERGE = "application/merge-patch+json"
PODS, JOBS = "/api/v1/namespaces/team/pods", "/apis/batch/v1/namespaces/team/jobs"
QUEUES = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/localqueues"
QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "LocalQueue",
    "metadata": {"name": "default"},
    "spec": {"clusterQueue": "q"},
}


@pytest.fixture
def api():
    with serving(provided=definitions(), disabled_plugins=frozenset({"ServiceAccount"})) as api:
        yield api


def make_namespace(api, **metadata):
    api.create("/api/v1/namespaces", namespace("team", **metadata))


def queue_of(made):
    return made["metadata"].get("labels", {}).get(QUEUE_LABEL)


def test_pods_and_jobs_without_a_queue_get_the_default_one(api):
    make_namespace(api)
    assert queue_of(api.create(PODS, pod("before"))) is None
    api.create(QUEUES, QUEUE)
    assert queue_of(api.create(PODS, pod("after"))) == "default"
    assert queue_of(api.create(JOBS, job("j"))) == "default"
    assert queue_of(api.create(PODS, pod("other", labels={QUEUE_LABEL: "mine"}))) == "mine"


def test_pods_of_a_job_are_in_the_queue_of_the_job(api):
    make_namespace(api)
    made = api.create(JOBS, job("j"))
    api.create(QUEUES, QUEUE)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": made["metadata"]["uid"], "controller": True}
    assert queue_of(api.create(PODS, pod("p", ownerReferences=[owner]))) is None
    # A Job that does not exist is no way around the queue, nor are words that only a node may say.
    other = {**owner, "uid": "u"}
    assert queue_of(api.create(PODS, pod("q", ownerReferences=[other]))) == "default"
    assert queue_of(api.create(PODS, pod("r", annotations={"kubernetes.io/config.mirror": "x"}))) == "default"


def test_a_namespace_can_require_a_queue(api):
    make_namespace(api, labels={REQUIRED_LABEL: "true"})
    code, answer = api.ask("POST", PODS, pod("p"))
    assert code == 403
    assert f"namespace team requires a queue: set the label {QUEUE_LABEL}" in answer["message"]
    assert api.ask("POST", JOBS, job("j"))[0] == 403
    assert queue_of(api.create(PODS, pod("p", labels={QUEUE_LABEL: "mine"}))) == "mine"
    api.create("/api/v1/namespaces/default/pods", pod("elsewhere"))


def test_all_namespaces_but_those_of_the_system_can_require_one():
    with serving(disabled_plugins=frozenset({"ServiceAccount"}), require_queue=True) as api:
        assert api.ask("POST", "/api/v1/namespaces/default/pods", pod("p"))[0] == 403
        api.create("/api/v1/namespaces/kube-system/pods", pod("p"))


@pytest.fixture
def of_account(api):
    make_namespace(api, annotations={USER: "1234", GROUP: "567"})
    return api


def test_pods_run_as_the_account_of_their_namespace(of_account):
    made = of_account.create(PODS, pod("p"))
    assert made["spec"]["securityContext"] == {"runAsUser": 1234, "runAsGroup": 567}


@pytest.mark.parametrize(
    ("members", "place"),
    [
        ({"securityContext": {"runAsUser": 0}}, "spec.securityContext.runAsUser is 0"),
        ({"securityContext": {"supplementalGroups": [0]}}, "spec.securityContext.supplementalGroups"),
        ({"container": {"runAsUser": 0}}, "spec.containers[0].securityContext.runAsUser is 0"),
        ({"container": {"runAsGroup": 0}}, "spec.containers[0].securityContext.runAsGroup is 0"),
        ({"container": {"privileged": True}}, "spec.containers[0].securityContext.privileged is true"),
        (
            {"container": {"capabilities": {"add": ["SYS_ADMIN"]}}},
            "spec.containers[0].securityContext.capabilities.add",
        ),
        ({"securityContext": {"fsGroup": 42}}, "spec.securityContext.fsGroup is 42"),
        (
            {"container": {"allowPrivilegeEscalation": True}},
            "spec.containers[0].securityContext.allowPrivilegeEscalation is true",
        ),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/home/bob/notes"}}]}, "spec.volumes[0].hostPath"),
        ({"securityContext": {"runAsUser": None, "runAsGroup": 0}}, "spec.securityContext.runAsGroup is 0"),
    ],
)
def test_a_pod_cannot_run_as_somebody_else(of_account, members, place):
    container = members.pop("container", None)
    body = pod("p", **members)
    if container is not None:
        body["spec"]["containers"][0]["securityContext"] = container
    code, answer = of_account.ask("POST", PODS, body)
    assert code == 403
    assert place in answer["message"]
    assert "pods of namespace team run as user 1234" in answer["message"]


def test_no_setuid_program_makes_a_pod_somebody_else(of_account):
    made = of_account.create(PODS, pod("p", securityContext={"runAsUser": None, "fsGroup": 567}))
    assert made["spec"]["securityContext"] == {"runAsUser": 1234, "runAsGroup": 567, "fsGroup": 567}
    assert made["spec"]["containers"][0]["securityContext"] == {"allowPrivilegeEscalation": False}


def test_without_a_group_in_the_namespace_a_pod_cannot_choose_one(api):
    make_namespace(api, annotations={USER: "1234"})
    assert api.create(PODS, pod("p"))["spec"]["securityContext"] == {"runAsUser": 1234}
    for context in ({"runAsGroup": 0}, {"fsGroup": 0}):
        code, answer = api.ask("POST", PODS, pod("q", securityContext=context))
        assert (code, "is 0, and pods of namespace team run as user 1234" in answer["message"]) == (403, True)


def test_an_account_that_is_no_number_lets_no_pod_run(api):
    make_namespace(api, annotations={USER: "alice"})
    code, answer = api.ask("POST", PODS, pod("p"))
    assert code == 403
    problem = "annotation dray.dev/run-as-user of namespace team is not the number of an account: 'alice'"
    assert problem in answer["message"]


def test_pods_that_are_older_than_the_account_can_be_changed_and_get_no_other_ephemeral_containers(api):
    make_namespace(api)
    api.create(PODS, pod("p", securityContext={"runAsUser": 0}, finalizers=["example.com/f"]))
    team = "/api/v1/namespaces/team"
    assert api.ask("PATCH", team, {"metadata": {"annotations": {USER: "1234"}}}, content_type=MERGE)[0] == 200
    code, answer = api.ask("PATCH", f"{PODS}/p", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert (code, answer["metadata"].get("finalizers")) == (200, None)

    def added(*contexts):
        given = [{"name": f"e{n}", "image": "x", "securityContext": each} for n, each in enumerate(contexts)]
        body = {"spec": {"ephemeralContainers": given}}
        return api.ask("PATCH", f"{PODS}/p/ephemeralcontainers", body, content_type=MERGE)

    code, answer = added({"runAsUser": 0})
    assert (code, "spec.ephemeralContainers[0].securityContext.runAsUser is 0" in answer["message"]) == (403, True)
    code, answer = added({})
    assert code == 200
    context = answer["spec"]["ephemeralContainers"][0]["securityContext"]
    assert context == {"allowPrivilegeEscalation": False, "runAsUser": 1234}
