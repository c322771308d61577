from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from dray.server.security import kubeconfig as kubeconfigs
from dray.testing.objects import claim, config_map, namespace, pod, request
from tests.server.process import listening

Write = Callable[..., str]
Dray = Callable[..., Result]

# Each namespace has the ConfigMap kube-root-ca.crt too.
OURS = ("-n", "team", "-l", "by=us")
OBJECTS = yaml.safe_dump_all(
    [
        namespace("team"),
        config_map("first", {"a": "1", "b": "2"}, namespace="team", labels={"app": "x", "by": "us"}),
        config_map("second", namespace="team", labels={"by": "us"}),
        claim("claim", request(deviceClassName="gpu.example.com"), namespace="team", labels={"by": "us"}),
        pod("pod"),
    ]
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with listening(plain=False, kubeconfig=tmp_path_factory.mktemp("server") / "kubeconfig") as running:
        yield running


@pytest.fixture
def dray(run: Dray, server: Any, monkeypatch: pytest.MonkeyPatch) -> Dray:
    """`dray` where $KUBECONFIG leads to a server with a few objects."""
    monkeypatch.setenv("KUBECONFIG", str(server.options.kubeconfig))
    assert run("apply", "-f", "-", stdin=OBJECTS).exit_code == 0
    return run


def rows(result: Result) -> list[list[str]]:
    assert result.exit_code == 0, result.stderr
    return [line.split() for line in result.stdout.splitlines()]


def test_a_table(dray: Dray) -> None:
    result = dray("get", "configmaps", *OURS)
    assert result.stdout.splitlines()[0] == "NAME     DATA   AGE"
    assert [row[:2] for row in rows(result)[1:]] == [["first", "2"], ["second", "0"]]


@pytest.mark.parametrize(
    "name",
    [
        "resourceclaims",
        "resourceclaim",
        "ResourceClaim",
        "resourceclaims.resource.k8s.io",
        "resourceclaims.resource",
        "ResourceClaim.v1.resource.k8s.io",
    ],
)
def test_names_of_a_type(dray: Dray, name: str) -> None:
    named = dray("get", name, "claim", "-n", "team", "-o", "name")
    assert (named.exit_code, named.stdout) == (0, "resourceclaim.resource.k8s.io/claim\n")


def test_short_names_and_versions(dray: Dray) -> None:
    assert rows(dray("get", "po"))[1][0] == "pod"
    old = dray("get", "resourceclaims.v1beta1.resource.k8s.io/claim", "-n", "team", "-o", "json")
    assert json.loads(old.stdout)["apiVersion"] == "resource.k8s.io/v1beta1"
    assert old.stderr.startswith("Warning: resource.k8s.io/v1beta1 ResourceClaim is deprecated")


def test_a_type_that_is_not_served(dray: Dray) -> None:
    result = dray("get", "resourceclaimz")
    assert result.exit_code == 1
    assert 'the server doesn\'t have a resource type "resourceclaimz"; did you mean resourceclaims' in result.stderr
    assert dray("get", "xyzzy").stderr == 'error: the server doesn\'t have a resource type "xyzzy"\n'


def test_all_namespaces_and_selectors(dray: Dray) -> None:
    everywhere = rows(dray("get", "cm", "-A"))
    assert everywhere[0] == ["NAMESPACE", "NAME", "DATA", "AGE"]
    assert ["team", "first", "2"] in [row[:3] for row in everywhere]
    assert [row[0] for row in rows(dray("get", "cm", "-n", "team", "-l", "app=x"))] == ["NAME", "first"]


def test_several_types_are_told_apart(dray: Dray) -> None:
    result = dray("get", "cm,resourceclaims", *OURS)
    assert [row[:1] for row in rows(result)] == [
        ["NAME"],
        ["configmap/first"],
        ["configmap/second"],
        [],
        ["NAME"],
        ["resourceclaim.resource.k8s.io/claim"],
    ]


def test_jsonpath_prints_parts_of_one_object_or_of_a_list(dray: Dray) -> None:
    assert dray("get", "cm/first", "-n", "team", "-o", "jsonpath={.data.a}").stdout == "1"
    template = 'jsonpath={range .items[*]}{.kind}/{.metadata.name}{"\\n"}{end}'
    assert dray("get", "cm", *OURS, "-o", template).stdout == "ConfigMap/first\nConfigMap/second\n"
    assert dray("get", "cm/nope", "-n", "team", "-o", "jsonpath={.data.a}").exit_code == 1


def test_wide_has_more_columns(dray: Dray) -> None:
    assert set(rows(dray("get", "pods", "-o", "wide"))[0]) - set(rows(dray("get", "pods"))[0]) >= {"IP", "NODE"}


@pytest.mark.parametrize(("output", "load"), [("yaml", yaml.safe_load), ("json", json.loads)])
def test_whole_objects(dray: Dray, output: str, load: Callable[[str], Any]) -> None:
    one = load(dray("get", "cm/first", "-n", "team", "-o", output).stdout)
    assert (one["kind"], one["data"]) == ("ConfigMap", {"a": "1", "b": "2"})
    assert "managedFields" not in one["metadata"]
    both = load(dray("get", "cm", *OURS, "-o", output).stdout)
    assert (both["kind"], [item["kind"] for item in both["items"]]) == ("List", ["ConfigMap"] * 2)
    assert load(dray("get", "secrets", "-o", output).stdout)["items"] == []


def test_what_is_shown_can_be_applied(dray: Dray) -> None:
    shown = dray("get", "resourceclaims", "claim", "-n", "team", "-o", "yaml").stdout
    assert dray("apply", "-f", "-", stdin=shown).exit_code == 0


def test_nothing_there(dray: Dray) -> None:
    result = dray("get", "secrets", "-n", "team")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "No resources found in team namespace.\n"
    assert dray("get", "nodes").stderr == "No resources found\n"
    assert dray("get", "secrets", "-A").stderr == "No resources found\n"


def test_a_name_that_is_not_there_does_not_hide_the_others(dray: Dray) -> None:
    result = dray("get", "cm", "first", "nope", "-n", "team")
    assert (result.exit_code, len(result.stdout.splitlines())) == (1, 2)
    assert result.stderr == 'error: configmaps "nope" not found\n'
    assert dray("get", "cm", "nope", "-o", "yaml").stdout == ""


@pytest.mark.parametrize(
    "arguments", [[], ["pods", "a", "-A"], ["pods/a", "b"], ["pods/"], ["pods", "a", "b", "-w"], ["pods", "-o", "csv"]]
)
def test_wrong_command_lines(run: Dray, arguments: list[str]) -> None:
    assert run("get", *arguments).exit_code == 2


def test_a_watch_shows_what_is_there_and_every_change(dray: Dray) -> None:
    command = [sys.executable, "-c", "from dray.cli import main; main()", "get", "cm", *OURS, "-w"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        try:
            assert [watching.stdout.readline().split()[0] for _ in range(3)] == ["NAME", "first", "second"]
            changed = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: third, namespace: team, labels: {by: us}}\n"
            assert dray("apply", "-f", "-", stdin=changed).exit_code == 0
            assert watching.stdout.readline().startswith("third    0      ")
            assert dray("delete", "cm/third", "-n", "team").exit_code == 0
            assert watching.stdout.readline().startswith("third    0      ")
            watching.send_signal(signal.SIGINT)
            assert watching.wait(20) == 0
        finally:
            watching.kill()


def test_a_watch_of_what_is_not_there(dray: Dray) -> None:
    assert dray("get", "cm", "nope", "-w").exit_code == 1


def test_no_kubeconfig(run: Dray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    # No cluster of another test is found.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    result = run("get", "pods")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: no kubeconfig at {tmp_path}/.kube/config; give --kubeconfig FILE")


def test_no_such_context(dray: Dray) -> None:
    result = dray("get", "pods", "--context", "nope")
    assert result.exit_code == 2
    assert result.stderr == "error: the kubeconfig has no context 'nope'; choose one with --context: dray\n"


def test_no_server(run: Dray, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfigs.plain("http://127.0.0.1:1")))
    result = run("get", "pods", "--kubeconfig", str(path))
    assert result.exit_code == 2
    assert result.stderr.startswith("error: cannot connect to http://127.0.0.1:1: ")
    assert "is the server running" in result.stderr


def test_another_server_under_the_same_address(dray: Dray, server: Any, tmp_path: Path) -> None:
    config = server.kubeconfig()
    del config["clusters"][0]["cluster"]["certificate-authority-data"]
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    result = dray("get", "pods", "--kubeconfig", str(path))
    assert result.exit_code == 2
    assert "has a certificate that this kubeconfig does not trust" in result.stderr


def test_forbidden_and_unauthorized(dray: Dray, server: Any, tmp_path: Path) -> None:
    authority = server.context.security.authority
    path = tmp_path / "kubeconfig"
    document = kubeconfigs.secure(server.url, authority.certificate, credential=authority.client("eve"))
    path.write_text(yaml.safe_dump(document))
    result = dray("get", "secrets", "--kubeconfig", str(path))
    assert result.exit_code == 1
    assert result.stderr.startswith('error: secrets is forbidden: User "eve" cannot list')
    assert "ask for a role that allows it" in result.stderr
    path.write_text(yaml.safe_dump(kubeconfigs.secure(server.url, authority.certificate, token="wrong")))
    result = dray("get", "secrets", "--kubeconfig", str(path))
    assert result.exit_code == 1
    assert "does not accept these credentials" in result.stderr
