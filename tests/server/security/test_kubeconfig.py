"""Kubeconfig files, and a real kubectl that uses them where there is one."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.server.security import kubeconfig
from dray.server.security.authority import Authority
from dray.server.security.composition import Security
from dray.server.security.kubeconfig import KubeconfigError, write_kubeconfig

from .cluster import Cluster
from .serving import serve

KUBECTL = shutil.which("kubectl")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="no kubectl on PATH")


def who_is(path: Path, *arguments: str) -> dict[str, Any]:
    command = [str(KUBECTL), "--kubeconfig", str(path), "--request-timeout=30s", *arguments]
    done = subprocess.run(
        [*command, "get", "--raw", "/api/v1/pods"], capture_output=True, timeout=20, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@needs_kubectl
def test_kubectl_with_a_certificate_and_with_a_token(tmp_path: Path) -> None:
    security = Security.ephemeral(Cluster())
    authority = security.authority
    assert authority is not None
    with serve(security.guard, security.server_context()) as port:
        server, path = f"https://127.0.0.1:{port}", tmp_path / "kubeconfig"
        write_kubeconfig(path, kubeconfig.secure(server, authority.certificate, credential=authority.admin()))
        assert who_is(path)["username"] == "kubernetes-admin"
        acting = who_is(path, "--as", "jane", "--as-group", "devs")
        assert (acting["username"], acting["sender"]) == ("jane", "kubernetes-admin")
        assert acting["groups"] == ["devs", "system:authenticated"]
        write_kubeconfig(path, kubeconfig.secure(server, authority.certificate, token=security.admin_token))
        assert who_is(path)["username"] == "system:admin"


@needs_kubectl
def test_kubectl_over_plain_http(tmp_path: Path) -> None:
    security = Security.ephemeral(Cluster(), plain=True)
    with serve(security.guard, None) as port:
        path = tmp_path / "kubeconfig"
        write_kubeconfig(path, kubeconfig.plain(f"http://127.0.0.1:{port}"))
        assert who_is(path)["username"] == "system:admin"


def test_the_file_is_private_whatever_was_there(tmp_path: Path) -> None:
    path = tmp_path / "new" / "kubeconfig"
    path.parent.mkdir()
    path.write_text("old")
    path.chmod(0o644)
    write_kubeconfig(path, kubeconfig.plain("http://localhost:8001"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert yaml.safe_load(path.read_text())["clusters"][0]["cluster"] == {"server": "http://localhost:8001"}
    assert [file.name for file in path.parent.iterdir()] == ["kubeconfig"]


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "kubeconfig").symlink_to(target)
    write_kubeconfig(tmp_path / "kubeconfig", kubeconfig.plain("http://localhost:8001"))
    assert target.read_text() == "precious"


def test_combinations_that_kubectl_would_not_use() -> None:
    authority = Authority.ephemeral()
    for arguments in ({}, {"token": "x", "credential": authority.admin()}):
        with pytest.raises(KubeconfigError):
            kubeconfig.secure("https://localhost:6443", authority.certificate, **arguments)  # type: ignore[arg-type]
    with pytest.raises(KubeconfigError):
        kubeconfig.secure("http://localhost:6443", authority.certificate, token="x")
    for server in ("http://gpu-box:8001", "https://localhost:8001"):
        with pytest.raises(KubeconfigError):
            kubeconfig.plain(server)


def test_a_place_where_it_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "kubeconfig"
    with pytest.raises(KubeconfigError) as raised:
        write_kubeconfig(path, kubeconfig.plain("http://localhost:8001"))
    assert str(raised.value).startswith(f"cannot write the kubeconfig {path}: ")
    assert str(raised.value).endswith("; --kubeconfig FILE writes it elsewhere")
