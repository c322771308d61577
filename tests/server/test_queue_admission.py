"""The default queue of a namespace, namespaces whose pods must name a queue, and Unix accounts of namespaces."""

from __future__ import annotations

import pytest

from dray.client.foreign_kinds import definitions
from dray.server.admission.queues import QUEUE_LABEL, REQUIRED_LABEL
from dray.server.admission.unix_accounts import GROUP, USER
from dray.server.authorization import User
from dray.testing.objects import job, namespace, pod
from tests.server.api import MERGE, STRATEGIC, serving

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


OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
EVASIONS = {
    "owner": {"ownerReferences": [OWNER]},
    "mirror": {"annotations": {"kubernetes.io/config.mirror": "x"}},
    "empty": {"labels": {QUEUE_LABEL: ""}},
    "kueue group": {"labels": {"kueue.x-k8s.io/pod-group-name": "g"}},
    "kai queue that does not exist": {"labels": {"kai.scheduler/queue": "q"}},
    "kai preemptibility": {"labels": {"kai.scheduler/preemptibility": "preemptible"}},
    "coscheduling": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
    "kai group": {"annotations": {"pod-group-name": "g"}},
}
evasions = pytest.mark.parametrize("metadata", EVASIONS.values(), ids=EVASIONS)
ANN = User("system:serviceaccount:team:ann", ("system:serviceaccounts", "system:authenticated"))


def as_ann(api):
    """A user with the role edit in the namespace."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": ANN.name}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
    binding = {**kind, "metadata": {"name": "ann"}, "roleRef": role, "subjects": [subject]}
    api.create("/apis/rbac.authorization.k8s.io/v1/namespaces/team/rolebindings", binding)
    api.user = ANN
    return api


@evasions
def test_nothing_that_a_pod_says_of_itself_keeps_it_out_of_the_default_queue(api, metadata):
    make_namespace(api)
    api.create(QUEUES, QUEUE)
    assert queue_of(as_ann(api).create(PODS, pod("p", **metadata))) == "default"


@evasions
def test_nothing_that_a_pod_says_of_itself_replaces_a_queue_that_is_required(api, metadata):
    make_namespace(api, labels={REQUIRED_LABEL: "true"})
    code, answer = as_ann(api).ask("POST", PODS, pod("p", **metadata))
    assert code == 403
    assert "requires a queue" in answer["message"]


def test_jobs_do_not_leave_the_default_queue_by_a_label_of_another_system(api):
    make_namespace(api)
    api.create(QUEUES, QUEUE)
    assert queue_of(api.create(JOBS, job("j", labels={"kai.scheduler/queue": "q"}))) == "default"


def test_a_queue_of_kai_that_exists_is_a_queue(api):
    make_namespace(api, labels={REQUIRED_LABEL: "true"})
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}, "spec": {}}
    api.create("/apis/scheduling.run.ai/v2/queues", queue)
    assert queue_of(api.create(PODS, pod("p", labels={"kai.scheduler/queue": "q"}))) is None


@pytest.mark.parametrize(("path", "make"), [(PODS, pod), (JOBS, job)])
def test_a_pod_or_job_that_waits_cannot_leave_its_queue(api, path, make):
    make_namespace(api, labels={REQUIRED_LABEL: "true"})
    api.create(path, make("waits", labels={QUEUE_LABEL: "mine"}))
    no_queue = {"metadata": {"labels": {QUEUE_LABEL: None}}}
    assert api.ask("PATCH", f"{path}/waits", no_queue, content_type=MERGE)[0] == 403
    api.create(QUEUES, QUEUE)
    assert queue_of(api.patch(f"{path}/waits", no_queue)) == "default"


def test_a_pod_in_a_queue_cannot_choose_its_node(api):
    make_namespace(api, labels={REQUIRED_LABEL: "true"})
    code, answer = api.ask("POST", PODS, pod("p", labels={QUEUE_LABEL: "mine"}, nodeName="n"))
    assert code == 403
    assert "remove spec.nodeName" in answer["message"]


def resize(api, name, **requests):
    change = {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}}
    return api.ask("PATCH", f"{PODS}/{name}/resize", change, content_type=STRATEGIC)


def test_a_pod_in_a_queue_cannot_grow_beyond_what_waited_for_quota(api):
    make_namespace(api)
    groups = [{"coveredResources": ["cpu"], "flavors": []}]
    queue = {**QUEUE, "kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": {"resourceGroups": groups}}
    api.create("/apis/kueue.x-k8s.io/v1beta2/clusterqueues", queue)
    api.create(PODS, pod("free", requests={"cpu": "1"}))
    api.create(QUEUES, QUEUE)
    api.create(PODS, pod("queued", requests={"cpu": "1", "memory": "1Gi"}))
    code, answer = resize(api, "queued", cpu="2", memory="1Gi")
    assert code == 403
    assert "the pod is in queue q, which has quota for cpu" in answer["message"]
    assert resize(api, "queued", cpu="500m", memory="2Gi")[0] == 200
    assert resize(api, "free", cpu="2")[0] == 200


def test_a_pod_in_a_queue_of_kai_cannot_grow(api):
    make_namespace(api)
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}, "spec": {}}
    api.create("/apis/scheduling.run.ai/v2/queues", queue)
    api.create(PODS, pod("p", requests={"cpu": "1"}, labels={"kai.scheduler/queue": "q"}))
    assert resize(api, "p", cpu="2")[0] == 403
    assert resize(api, "p", cpu="500m")[0] == 200


def test_a_static_pod_is_in_no_queue(api):
    make_namespace(api, labels={REQUIRED_LABEL: "true"})
    mirror = pod("p", annotations={"kubernetes.io/config.mirror": "x"}, nodeName="n")
    assert queue_of(api.create(PODS, mirror)) is None


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
        ({"securityContext": {"fsGroup": 6}}, "spec.securityContext.fsGroup is 6"),
        ({"container": {"runAsUser": 0}}, "spec.containers[0].securityContext.runAsUser is 0"),
        ({"container": {"runAsGroup": 0}}, "spec.containers[0].securityContext.runAsGroup is 0"),
        ({"container": {"privileged": True}}, "spec.containers[0].securityContext.privileged is true"),
        (
            {"container": {"capabilities": {"add": ["SYS_ADMIN"]}}},
            "spec.containers[0].securityContext.capabilities.add",
        ),
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


def test_members_that_are_null_do_not_replace_the_account(of_account):
    made = of_account.create(PODS, pod("p", securityContext={"runAsUser": None, "runAsGroup": None, "fsGroup": 567}))
    assert made["spec"]["securityContext"] == {"runAsUser": 1234, "runAsGroup": 567, "fsGroup": 567}


def test_an_ephemeral_container_cannot_run_as_somebody_else(of_account):
    of_account.create(PODS, pod("p"))
    container = {"name": "debug", "image": "busybox", "securityContext": {"runAsUser": 0}}
    change = {"spec": {"ephemeralContainers": [container]}}
    code, answer = of_account.ask("PATCH", f"{PODS}/p/ephemeralcontainers", change, content_type=STRATEGIC)
    assert code == 403
    assert "spec.ephemeralContainers[0].securityContext.runAsUser is 0" in answer["message"]


def test_an_account_without_a_group_leaves_no_choice_of_groups(api):
    make_namespace(api, annotations={USER: "1234"})
    assert api.ask("POST", PODS, pod("p", securityContext={"runAsGroup": 0}))[0] == 403
    assert api.ask("POST", PODS, pod("p", securityContext={"fsGroup": 0}))[0] == 403
