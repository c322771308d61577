"""The user's own kubeconfig: entries come and go, and everything else stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.cli import own_kubeconfig
from dray.cli.own_kubeconfig import merged, own_path
from dray.server.security.kubeconfig import KubeconfigError, plain

OURS = plain("http://127.0.0.1:6443", name="dray-lab")
OTHERS = """\
# A comment is lost, everything else is not.
apiVersion: v1
kind: Config
preferences: {colors: true}
current-context: work
clusters:
- {name: work, cluster: {server: "https://192.0.2.1", extensions: [{name: x}]}}
- {name: dray-lab, cluster: {server: "https://192.0.2.2"}}
contexts:
- {name: work, context: {cluster: work, user: me}}
users:
- {name: me, user: {exec: {command: login}}}
"""


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_entries_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(OTHERS)
    before = load(path)
    with merged(path, OURS):
        found = load(path)
        assert found["current-context"] == "dray-lab"
        # One of the same name was left by a cluster that was killed, and is replaced.
        assert [each["name"] for each in found["clusters"]] == ["work", "dray-lab"]
        assert found["preferences"] == before["preferences"]
        assert path.stat().st_mode & 0o777 == 0o600
    after = load(path)
    assert after == {**before, "clusters": before["clusters"][:1]}
    assert not list(tmp_path.glob("*.lock"))


def test_a_cluster_that_was_killed_does_not_hide_which_context_was_current(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(OTHERS)
    with merged(path, OURS):
        left = path.read_text()
    path.write_text(left)
    with merged(path, OURS):
        assert load(path)["current-context"] == "dray-lab"
    assert load(path)["current-context"] == "work"


def test_a_file_that_was_not_there_is_not_there_afterwards(tmp_path: Path) -> None:
    path = tmp_path / ".kube/config"
    with merged(path, OURS):
        assert load(path)["current-context"] == "dray-lab"
    assert not path.exists()


def test_what_somebody_changed_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "config"
    with merged(path, OURS):
        found = load(path)
        found["current-context"] = "work"
        found["contexts"].append({"name": "work", "context": {"cluster": "work", "user": "me"}})
        found["users"][0]["user"] = {"token": "t"}
        path.write_text(yaml.safe_dump(found))
    after = load(path)
    assert after["current-context"] == "work"
    assert [each["name"] for each in after["contexts"]] == ["work"]
    assert after["users"] == [{"name": "dray-lab-admin", "user": {"token": "t"}}]


def test_a_file_that_is_no_kubeconfig_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "config"
    for text in ("- a list\n", "clusters: 3\n", "{"):
        path.write_text(text)
        with pytest.raises(KubeconfigError, match="left as it is"), merged(path, OURS):
            pass
        assert path.read_text() == text


def test_a_file_that_kubectl_holds_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_kubeconfig, "_PATIENCE", 0.0)
    (tmp_path / "config.lock").touch()
    with pytest.raises(KubeconfigError, match="held by another process"), merged(tmp_path / "config", OURS):
        pass


def test_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("real")
    assert own_path({"KUBECONFIG": f"{tmp_path}/link:{tmp_path}/b"}) == tmp_path / "real"
    assert own_path({"HOME": str(tmp_path)}) == tmp_path / ".kube/config"
