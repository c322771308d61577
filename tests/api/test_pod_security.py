"""Pod Security Standards: what each check refuses, since which version, and in which words."""

from __future__ import annotations

import copy

import pytest

from dray.api.pod_security.checks import NEWEST, violations
from dray.api.pod_security.policy import Policy, Standard, read_policy

LATEST = None
GOOD = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "a",
            "image": "x",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
}


def pod(context=None, *, container=None, annotations=None, **spec):
    """A pod that the level restricted allows, but for what is given: of the pod, of its container, of both contexts."""
    made = copy.deepcopy(GOOD)
    made.update(spec)
    made["securityContext"].update(context or {})
    for member, value in (container or {}).items():
        made["containers"][0]["securityContext"][member] = value
    return annotations or {}, made


def found(level, given, minor=LATEST):
    return ", ".join(map(str, violations(Standard(level, minor), *given)))


def second(**more):
    return [*copy.deepcopy(GOOD["containers"]), {"name": "b", **more}]


BASELINE = [
    (
        pod(hostNetwork=True, hostPID=True, hostIPC=True),
        "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
    ),
    (pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), 'hostPath volumes (volume "v")'),
    (
        pod(container={"privileged": True}),
        'privileged (container "a" must not set securityContext.privileged=true)',
    ),
    (
        pod(containers=second(ports=[{"hostPort": 90}, {"hostPort": 8080}, {"hostPort": 0}])),
        'hostPort (container "b" uses hostPorts 8080, 90)',
    ),
    (
        pod(container={"capabilities": {"add": ["SYS_ADMIN", "CHOWN", "NET_RAW"], "drop": ["ALL"]}}),
        'non-default capabilities (container "a" must not include "NET_RAW", "SYS_ADMIN" in '
        "securityContext.capabilities.add)",
    ),
    (
        pod(container={"procMount": "Unmasked"}),
        'procMount (container "a" must not set securityContext.procMount to "Unmasked")',
    ),
    (
        pod({"seLinuxOptions": {"type": "spc_t"}}, container={"seLinuxOptions": {"user": "u", "role": "r"}}),
        'seLinuxOptions (pod and container "a" set forbidden securityContext.seLinuxOptions: type "spc_t"; '
        "user may not be set; role may not be set)",
    ),
    (
        pod({"seccompProfile": {"type": "Unconfined"}}),
        'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    (pod({"sysctls": [{"name": "kernel.msgmax"}, {"name": "a.b"}]}), "forbidden sysctls (kernel.msgmax, a.b)"),
    (
        pod({"windowsOptions": {"hostProcess": True}}),
        "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
    ),
    (
        pod(annotations={"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}),
        "forbidden AppArmor profile (annotation must not set AppArmor profile type to "
        '"container.apparmor.security.beta.kubernetes.io/a="unconfined"")',
    ),
    (
        pod({"appArmorProfile": {"type": "Unconfined"}}),
        'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")',
    ),
    (
        pod(
            containers=second(livenessProbe={"httpGet": {"host": "10.0.0.1"}}, lifecycle={"preStop": {"tcpSocket": {}}})
        ),
        'probe or lifecycle host (container "b" uses probe or lifecycle host "10.0.0.1")',
    ),
]
RESTRICTED = [
    (
        pod(containers=second(securityContext={"capabilities": {"drop": ["ALL"]}})),
        'allowPrivilegeEscalation != false (container "b" must set securityContext.allowPrivilegeEscalation=false)',
    ),
    (
        pod(container={"capabilities": {"add": ["CHOWN", "NET_BIND_SERVICE"]}}),
        'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]; container "a" '
        'must not include "CHOWN" in securityContext.capabilities.add)',
    ),
    (
        pod(
            volumes=[{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "nfs": {}}, {"name": "u", "emptyDir": {}}]
        ),
        'restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")',
    ),
    (
        pod({"runAsNonRoot": None}),
        'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)',
    ),
    (
        pod(container={"runAsNonRoot": False}),
        'runAsNonRoot != true (container "a" must not set securityContext.runAsNonRoot=false)',
    ),
    (
        pod({"runAsUser": 0}, container={"runAsUser": 0}),
        'runAsUser=0 (pod and container "a" must not set runAsUser=0)',
    ),
    (
        pod({"seccompProfile": None}),
        'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
        '"Localhost")',
    ),
]


@pytest.mark.parametrize(("given", "text"), BASELINE, ids=lambda value: value[:20] if isinstance(value, str) else "")
def test_what_baseline_refuses(given, text):
    assert found("baseline", given) == text
    assert found("privileged", given) == ""
    assert found("restricted", given) != ""


@pytest.mark.parametrize(("given", "text"), RESTRICTED, ids=lambda value: value[:20] if isinstance(value, str) else "")
def test_what_only_restricted_refuses(given, text):
    assert found("restricted", given) == text


def test_a_pod_without_a_security_context_violates_all_that_restricted_asks_for():
    text = found("restricted", ({}, {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}))
    assert text == (
        'allowPrivilegeEscalation != false (containers "i", "a" must set '
        "securityContext.allowPrivilegeEscalation=false), "
        'unrestricted capabilities (containers "i", "a" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or containers "i", "a" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or containers "i", "a" must set securityContext.seccompProfile.type to "RuntimeDefault" '
        'or "Localhost")'
    )
    assert found("restricted", pod()) == ""


@pytest.mark.parametrize(
    ("level", "given", "since", "until"),
    [
        ("restricted", pod(containers=second(securityContext={"capabilities": {"drop": ["ALL"]}})), 8, None),
        ("restricted", pod(container={"capabilities": {}}), 22, None),
        ("restricted", pod({"runAsUser": 0}), 23, None),
        ("restricted", pod({"seccompProfile": None}), 19, None),
        ("restricted", pod({"runAsNonRoot": None}, hostUsers=False), 0, 35),
        ("baseline", pod(container={"procMount": "Unmasked"}, hostUsers=False), 0, 35),
        ("restricted", pod(container={"procMount": "Unmasked"}, hostUsers=False), 0, None),
        ("baseline", pod({"seLinuxOptions": {"type": "container_engine_t"}}), 0, 31),
        ("baseline", pod({"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}), 0, 32),
        ("baseline", pod(containers=second(livenessProbe={"tcpSocket": {"host": "h"}})), 34, None),
        ("baseline", pod(annotations={"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}), 0, 19),
        ("restricted", pod({"seccompProfile": None, "runAsNonRoot": True}, os={"name": "windows"}), 19, 25),
    ],
)
def test_since_and_until_which_version_a_check_holds(level, given, since, until):
    refused = [minor for minor in range(NEWEST + 1) if found(level, given, minor)]
    assert refused == list(range(since, until or NEWEST + 1))
    assert bool(found(level, given)) == bool(found(level, given, 999)) == (until is None)


def labels(**modes):
    return {f"pod-security.kubernetes.io/{mode.replace('_', '-')}": value for mode, value in modes.items()}


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ({"a": "b"}, Policy()),
        (labels(enforce="baseline"), Policy(Standard("baseline"), warn=Standard("baseline"))),
        (
            labels(enforce="restricted", enforce_version="v1.30"),
            Policy(*(Standard("restricted", 30), Standard()), Standard("restricted", 30)),
        ),
        (labels(enforce="restricted", warn="baseline"), Policy(Standard("restricted"), warn=Standard("baseline"))),
        (labels(audit="restricted", audit_version="v1.0"), Policy(audit=Standard("restricted", 0))),
        (labels(enforce_version="v1.5"), Policy(Standard("privileged", 5))),
    ],
)
def test_policies_of_labels(given, policy):
    assert read_policy(given) == policy


def test_labels_that_cannot_be_read():
    found = read_policy(labels(enforce="strict", enforce_version="1.2", audit="", warn="none"))
    assert (found.enforce, found.audit, found.warn) == (Standard("restricted"), Standard(), Standard())
    prefix = "metadata.labels[pod-security.kubernetes.io/"
    assert [str(problem) for problem in found.problems] == [
        f'{prefix}enforce]: Invalid value: "strict": must be one of privileged, baseline, restricted',
        f'{prefix}enforce-version]: Invalid value: "1.2": must be "latest" or "v1.x"',
        f'{prefix}audit]: Invalid value: "": must be one of privileged, baseline, restricted',
        f'{prefix}warn]: Invalid value: "none": must be one of privileged, baseline, restricted',
    ]
    assert not found.is_privileged
    for version in ("v1.01", "v2.1", "v1.", "v1.1\n", "latest "):
        assert read_policy(labels(warn_version=version)).problems, version
