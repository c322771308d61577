"""A whole server with TLS, RBAC and the node rules, asked by a real kubectl."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dray.server.running import Options, RunningServer
from dray.server.security import kubeconfig
from dray.server.security.certificates import Credential

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on PATH")

Kubectl = Callable[..., Awaitable[tuple[int, str]]]

NODE = "apiVersion: v1\nkind: Node\nmetadata: {%s}\n"
SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice-%(node)s}
spec:
  driver: gpu.example.com
  nodeName: %(node)s
  pool: {name: %(node)s, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}]
"""


def kubectl_with(config: Path) -> Kubectl:
    async def run(*arguments: str, stdin: str = "") -> tuple[int, str]:
        """The exit status, and everything that was printed."""
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            "--kubeconfig",
            str(config),
            "--cache-dir",
            str(config.parent / "cache"),
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await asyncio.wait_for(process.communicate(stdin.encode()), 30)
        return process.returncode or 0, output.decode()

    return run


def enter(server: RunningServer, path: Path, credential: Credential | None = None, token: str = "") -> Kubectl:
    authority = server.context.security.authority
    assert authority is not None
    document = kubeconfig.secure(server.url, authority.certificate, credential=credential, token=token)
    kubeconfig.write_kubeconfig(path, document)
    return kubectl_with(path)


async def ask_as_users(server: RunningServer, tmp_path: Path) -> None:
    admin = kubectl_with(tmp_path / "admin")
    _, who = await admin("auth", "whoami", "-o", "json")
    assert json.loads(who)["status"]["userInfo"]["username"] == "kubernetes-admin"
    assert (await admin("auth", "can-i", "create", "pods"))[1].strip() == "yes"
    assert (await admin("auth", "can-i", "list", "resourceclaims", "--as", "jane"))[1].strip() == "no"
    await admin("create", "rolebinding", "jane", "--clusterrole=view", "--user=jane", "-n", "default")
    assert (await admin("auth", "can-i", "list", "resourceclaims", "--as", "jane"))[1].strip() == "yes"
    assert (await admin("auth", "can-i", "list", "secrets", "--as", "jane"))[1].strip() == "no"
    listing = (await admin("auth", "can-i", "--list", "--as", "jane"))[1]
    assert "resourceclaims.resource.k8s.io" in listing
    assert (await admin("get", "pods", "--as", "jane"))[0] == 0
    code, refusal = await admin("get", "pods", "-A", "--as", "jane")
    assert code == 1
    assert 'User "jane" cannot list resource "pods" in API group "" at the cluster scope' in refusal


async def ask_as_a_service_account(server: RunningServer, tmp_path: Path) -> None:
    admin = kubectl_with(tmp_path / "admin")
    _, token = await admin("create", "token", "default", "-n", "default")
    account = enter(server, tmp_path / "account", token=token.strip())
    _, who = await account("auth", "whoami", "-o", "json")
    assert json.loads(who)["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"
    assert (await account("get", "pods"))[0] == 1


async def ask_as_a_node(server: RunningServer, tmp_path: Path) -> None:
    authority = server.context.security.authority
    assert authority is not None
    node = enter(server, tmp_path / "node", authority.node("n1"))
    assert (await node("create", "-f", "-", stdin=NODE % "name: n1"))[0] == 0
    assert (await node("create", "-f", "-", stdin=NODE % "name: n2"))[0] == 1
    assert (await node("create", "-f", "-", stdin=NODE % "generateName: n1"))[0] == 1
    assert (await node("create", "-f", "-", stdin=SLICE % {"node": "n1"}))[0] == 0
    assert (await node("create", "-f", "-", stdin=SLICE % {"node": "n2"}))[0] == 1
    assert (await node("get", "pods", "-A"))[0] == 1
    assert (await node("get", "pods", "-A", "--field-selector=spec.nodeName=n1"))[0] == 0
    assert (await node("get", "nodes"))[0] == 1
    assert (await node("get", "node", "n1"))[0] == 0


@pytest.mark.parametrize("story", [ask_as_users, ask_as_a_service_account, ask_as_a_node])
async def test_kubectl(story: Callable[[RunningServer, Path], Awaitable[None]], tmp_path: Path) -> None:
    options = Options(port=0, kubeconfig=tmp_path / "admin", audit_log=tmp_path / "audit.log")
    async with RunningServer(options).running() as server:
        await story(server, tmp_path)
    log = (tmp_path / "audit.log").read_text()
    assert "Event" in log
    assert "eyJhbGci" not in log, "a token is in the audit log"
