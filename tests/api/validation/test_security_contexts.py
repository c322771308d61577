"""Security contexts that Kubernetes refuses, and that would give a pod more than its namespace allows."""

from pathlib import Path

import pytest

from dray.api.validation import security_contexts
from dray.node.errors import SetupError
from dray.node.security_context import security_of


def localhost(file):
    return {"type": "Localhost", "localhostProfile": file}


PROFILES = [
    {"seccompProfile": localhost("/tmp/own.json")},
    {"seccompProfile": localhost("../pods/own.json")},
    {"seccompProfile": localhost("a/../../own.json")},
    {"seccompProfile": {"type": "Localhost"}},
    {"seccompProfile": {"type": "Own"}},
    {"seccompProfile": {"type": ""}},
    {"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "a"}},
    {"appArmorProfile": {"type": "Localhost"}},
    {"appArmorProfile": localhost(" a")},
    {"appArmorProfile": {"type": "Unconfined", "localhostProfile": "a"}},
    {"runAsUser": -1},
    {"runAsUser": 2**32},
    {"runAsGroup": 2**31},
]


@pytest.mark.parametrize("context", PROFILES)
def test_pods_and_containers_are_refused(context):
    for validate in (security_contexts.validate_pod, security_contexts.validate_container):
        (found,) = validate(context, "c")
        assert found.field.startswith(f"c.{next(iter(context))}")


@pytest.mark.parametrize(
    "context",
    [
        {"fsGroup": -1},
        {"supplementalGroups": [-1]},
        {"fsGroupChangePolicy": "Sometimes"},
        {"supplementalGroupsPolicy": "Own"},
        {"sysctls": [{"name": "../a", "value": "1"}]},
        {"sysctls": [{"name": "net.a", "value": "1"}, {"name": "net/a", "value": "1"}]},
    ],
)
def test_pods_are_refused(context):
    assert len(list(security_contexts.validate_pod(context, "c"))) == 1


@pytest.mark.parametrize(
    "context",
    [
        {"procMount": "Own"},
        {"allowPrivilegeEscalation": False, "privileged": True},
        {"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]}},
    ],
)
def test_containers_are_refused(context):
    assert len(list(security_contexts.validate_container(context, "c"))) == 1


def test_what_pods_usually_say_is_accepted():
    both = {
        "runAsUser": 0,
        "runAsGroup": 2**31 - 1,
        "seccompProfile": localhost("team/a.json"),
        "appArmorProfile": localhost("a"),
    }
    pod = {"fsGroup": 5, "supplementalGroups": [0, 7], "sysctls": [{"name": "net.ipv4/tcp_rmem", "value": "1"}]}
    assert list(security_contexts.validate_pod({**both, **pod}, "c")) == []
    container = {"privileged": False, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert list(security_contexts.validate_container({**both, **container}, "c")) == []


@pytest.mark.parametrize("file", ["/tmp/own.json", "../own.json"])
def test_a_node_uses_no_profile_from_elsewhere(file):
    with pytest.raises(SetupError, match="is not below /profiles"):
        security_of({"seccompProfile": localhost(file)}, Path("/profiles"))
    found = security_of({"seccompProfile": localhost("a.json")}, Path("/profiles"))
    assert found.seccomp == "/profiles/a.json"
