from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from dray.server.security import kubeconfig as kubeconfigs
from tests.server.process import listening

Write = Callable[..., str]
Dray = Callable[..., Result]

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"
HELD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, finalizers: [example.com/keep]}\n"
DELETERS = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: deleter}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: deleters}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: deleter}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: eve}]
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {nodeName: node-1, containers: [{name: c, image: i}]}
"""


def applied(dray: Dray, text: str) -> None:
    result = dray("apply", "-f", "-", stdin=text)
    assert result.exit_code == 0, result.stderr


def test_by_name_in_both_forms(dray: Dray) -> None:
    for name in "abc":
        applied(dray, CONFIG.replace("NAME", name))
    assert dray("delete", "cm", "a", "b").stdout.splitlines() == [
        'configmap "a" deleted from default namespace',
        'configmap "b" deleted from default namespace',
    ]
    assert dray("delete", "configmaps/c").exit_code == 0
    assert {line.split()[0] for line in dray("get", "cm").stdout.splitlines()} <= {"NAME", "kube-root-ca.crt"}


def test_a_name_that_is_not_there_does_not_stop_the_others(dray: Dray) -> None:
    applied(dray, CONFIG.replace("NAME", "a"))
    result = dray("delete", "cm", "nope", "a")
    assert result.exit_code == 1
    assert result.stderr == 'error: configmaps "nope" not found\n'
    assert result.stdout == 'configmap "a" deleted from default namespace\n'
    assert dray("delete", "cm", "nope", "--ignore-not-found").exit_code == 0


def test_by_file_what_others_need_goes_last(dray: Dray, write: Write) -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n---\n" + CONFIG.replace(
        "NAME", "a, namespace: team"
    )
    applied(dray, text)
    path = write(text)
    result = dray("delete", "-f", path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == ['configmap "a" deleted from team namespace', 'namespace "team" deleted']
    assert dray("get", "ns", "team").exit_code == 1
    again = dray("delete", "-f", path)
    assert again.exit_code == 1
    assert again.stderr.startswith('m.yaml:5:1: error: ConfigMap a: configmaps "a" not found')


def test_a_kind_that_is_gone_counts_as_not_found(dray: Dray, write: Write) -> None:
    path = write("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n")
    assert dray("delete", "-f", path).exit_code == 1
    assert dray("delete", "-f", path, "--ignore-not-found").exit_code == 0


def test_waiting_ends_with_what_holds_the_object(dray: Dray) -> None:
    applied(dray, HELD)
    result = dray("delete", "cm/held", "--timeout", "300ms")
    assert result.exit_code == 1
    assert result.stderr == ("error: configmap/held still exists after 0.3s, held by the finalizers example.com/keep\n")
    started = time.monotonic()
    assert dray("delete", "cm/held", "--no-wait").exit_code == 0
    assert time.monotonic() - started < 25


def test_a_grace_period_leaves_the_pod_until_it_is_taken_back(dray: Dray) -> None:
    applied(dray, POD)
    result = dray("delete", "pod", "p", "--grace-period", "60", "--timeout", "300ms")
    assert (result.exit_code, result.stderr) == (1, "error: pod/p still exists after 0.3s\n")
    result = dray("delete", "pod", "p", "--grace-period", "0", "--timeout", "20s")
    assert (result.exit_code, result.stdout) == (0, 'pod "p" force deleted from default namespace\n')


def test_who_may_delete_but_not_look(run: Dray, tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("admin", "eve")}
    with listening(plain=False, kubeconfig=paths["admin"]) as server:
        authority = server.context.security.authority
        eve = kubeconfigs.secure(server.url, authority.certificate, credential=authority.client("eve"))
        paths["eve"].write_text(yaml.safe_dump(eve))
        admin = ("--kubeconfig", str(paths["admin"]))
        assert run("apply", *admin, "-f", "-", stdin=f"{DELETERS}---\n{HELD}").exit_code == 0
        result = run("delete", "cm/held", "--kubeconfig", str(paths["eve"]))
    assert (result.exit_code, result.stdout) == (1, 'configmap "held" deleted from default namespace\n')
    assert result.stderr.startswith('error: configmaps "held" is forbidden: User "eve"')


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["pods"],
        ["pods", "a/b"],
        ["pods", "%"],
        ["pods/a", "-f", "x.yaml"],
        ["pods", "a", "--timeout", "soon"],
        ["pods", "a", "--grace-period", "-1"],
    ],
)
def test_wrong_command_lines(run: Dray, arguments: list[str]) -> None:
    assert run("delete", *arguments).exit_code == 2
