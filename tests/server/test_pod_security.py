"""The labels of a namespace are enforced on its pods, and said of its workloads."""

from __future__ import annotations

import pytest

from dray.server.context import Context
from dray.store.memory import MemoryStore
from tests.server.api import Api

PREFIX = "pod-security.kubernetes.io"
NAMESPACES = "/api/v1/namespaces"
PODS = f"{NAMESPACES}/team/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/team/deployments"
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
NON_ROOT = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
ESCAPE = {"hostPID": True, "hostNetwork": True, "volumes": [{"name": "root", "hostPath": {"path": "/"}}]}


def namespace(name="team", **modes):
    labels = {f"{PREFIX}/{mode.replace('_', '-')}": value for mode, value in modes.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def pod(name="p", context=None, **spec):
    container = {"name": "c", "image": "x", **({"securityContext": context} if context else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def good(name="p"):
    return pod(name, RESTRICTED, securityContext=NON_ROOT)


def deployment(spec):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    selector = {"matchLabels": {"a": "b"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": selector, "template": template},
    }


def team(api, **modes):
    api.create(NAMESPACES, namespace(**modes))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    api.create(f"{NAMESPACES}/team/serviceaccounts", account)


def relabel(api, **modes):
    return api.patch(f"{NAMESPACES}/team", {"metadata": namespace(**modes)["metadata"]})


def test_a_privileged_pod_is_refused_in_a_restricted_namespace(api):
    team(api, enforce="restricted")
    code, answer = api.ask("POST", PODS, pod(context={"privileged": True}, **ESCAPE))
    assert (code, answer["reason"]) == (403, "Forbidden")
    assert answer["message"].startswith(
        'pods "p" is forbidden: violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true, '
        'hostPID=true), privileged (container "c" must not set securityContext.privileged=true), '
        'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), '
    )
    assert 'restricted volume types (volume "root" uses restricted volume type "hostPath")' in answer["message"]
    assert api.annotations[f"{PREFIX}/enforce-policy"] == "restricted:latest"
    assert api.warnings == []
    api.create(PODS, good())
    assert api.warnings == []


def test_namespaces_without_labels_and_namespaces_of_the_system_allow_everything(api):
    team(api)
    for name in ("team", "default", "kube-system"):
        api.create(f"{NAMESPACES}/{name}/pods", pod(context={"privileged": True}, **ESCAPE))
        assert api.warnings == []
        assert api.annotations == {f"{PREFIX}/enforce-policy": "privileged:latest"}


def test_audit_and_warn_do_not_refuse(api):
    team(api, warn="baseline", warn_version="v1.30", audit="baseline")
    api.create(PODS, pod(hostPID=True))
    assert api.warnings == ['would violate PodSecurity "baseline:v1.30": host namespaces (hostPID=true)']
    assert api.annotations == {
        f"{PREFIX}/enforce-policy": "privileged:latest",
        f"{PREFIX}/audit-violations": 'would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)',
    }


def test_workloads_are_warned_of_and_accepted(api):
    team(api, enforce="baseline")
    api.create(DEPLOYMENTS, deployment(pod(hostPID=True)["spec"]))
    assert api.warnings == ['would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)']
    api.patch(f"{DEPLOYMENTS}/d/status", {"status": {"replicas": 1}})
    assert api.warnings == []
    job = {"template": {"spec": {**pod(hostIPC=True)["spec"], "restartPolicy": "Never"}}}
    made = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "j"}}
    schedule = {"schedule": "0 0 * * *", "jobTemplate": {"spec": job}}
    api.create("/apis/batch/v1/namespaces/team/cronjobs", {**made, "spec": schedule})
    assert api.warnings == ['would violate PodSecurity "baseline:latest": host namespaces (hostIPC=true)']
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(hostIPC=True)["spec"]}
    made = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"}, "template": template}
    api.create(f"{NAMESPACES}/team/podtemplates", made)
    assert api.warnings == ['would violate PodSecurity "baseline:latest": host namespaces (hostIPC=true)']


def test_updates_are_looked_at_where_they_bring_an_image_or_a_container(api):
    team(api)
    api.create(PODS, pod(hostPID=True))
    relabel(api, enforce="baseline")
    api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    change = [{"op": "replace", "path": "/spec/containers/0/image", "value": "y"}]
    code, answer = api.ask("PATCH", f"{PODS}/p", change, content_type="application/json-patch+json")
    assert (code, "violates PodSecurity" in answer["message"]) == (403, True)


def test_ephemeral_containers_are_held_to_the_level(api):
    team(api, enforce="restricted")
    api.create(PODS, good())

    def debug(context):
        added = {"name": "debug", "image": "x", "securityContext": context}
        return api.ask(
            "PATCH",
            f"{PODS}/p/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [added]}},
            content_type="application/strategic-merge-patch+json",
        )

    code, answer = debug({"privileged": True})
    assert (code, '"debug"' in answer["message"]) == (403, True)
    assert debug(RESTRICTED)[0] == 200


@pytest.mark.parametrize("label", ["enforce", "audit_version", "warn"])
def test_labels_that_cannot_be_read_are_refused(api, label):
    code, answer = api.ask("POST", NAMESPACES, namespace(**{label: "wrong"}))
    assert code == 422
    assert answer["details"]["causes"][0]["field"] == f"metadata.labels[{PREFIX}/{label.replace('_', '-')}]"
    team(api)
    code, answer = api.ask(
        "PATCH", f"{NAMESPACES}/team", namespace(**{label: "wrong"}), content_type="application/merge-patch+json"
    )
    assert code == 422


def test_a_stricter_label_warns_of_pods_that_are_there(api):
    team(api)
    for name in ("b", "a", "c"):
        api.create(PODS, pod(name, hostPID=True))
    api.create(PODS, pod("z", hostIPC=True, context={"privileged": True}))
    api.create(PODS, good("fine"))
    heading = 'existing pods in namespace "team" violate the new PodSecurity enforce level "baseline:latest"'
    expected = [heading, "a (and 2 other pods): host namespaces", "z: host namespaces, privileged"]
    path, change = f"{NAMESPACES}/team?dryRun=All", {"metadata": namespace(enforce="baseline")["metadata"]}
    api.patch(path, change)
    assert api.warnings == expected
    relabel(api, enforce="baseline")
    assert api.warnings == expected
    relabel(api, enforce="baseline", audit="restricted")
    assert api.warnings == []
    relabel(api, enforce="privileged")
    assert api.warnings == []


def test_the_plug_in_can_be_switched_off(api):
    context = Context(MemoryStore(), disabled_plugins=frozenset({"PodSecurity"}))
    other = Api(api.runner, context)
    team(other, enforce="restricted", warn="anything")
    other.create(PODS, pod(hostPID=True))
    assert other.warnings == []
    api.runner.run(other.server.close())
