"""Service accounts with few rights, and kubeconfigs for them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from click.testing import Result

from tests.cli.running import eventually

Dray = Callable[..., Result]
RBAC = "rbac.authorization.k8s.io"


def apply(run: Dray, admin: Path, *documents: object) -> None:
    text = "\n---\n".join(map(json.dumps, documents))
    result = run("apply", "-f", "-", "--kubeconfig", str(admin), stdin=text)
    assert result.exit_code == 0, result.output


def account(run: Dray, admin: Path, path: Path) -> Path:
    """Writes a kubeconfig for the account `s` of kube-system, which has no role."""
    place = {"namespace": "kube-system"}
    named = {"kubernetes.io/service-account.name": "s"}
    token = {"name": "t", "annotations": named, **place}
    kind = "kubernetes.io/service-account-token"
    apply(
        run,
        admin,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s", **place}},
        {"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": token},
    )

    def secret() -> str:
        found = run("get", "secret", "t", "-n", "kube-system", "-o", "json", "--kubeconfig", str(admin))
        return str(json.loads(found.stdout).get("data", {}).get("token", ""))

    config = yaml.safe_load(admin.read_text())
    config["users"][0]["user"] = {"token": base64.b64decode(eventually(secret)).decode()}
    path.write_text(yaml.safe_dump(config))
    return path


def grant(run: Dray, admin: Path, role: str, rules: list[dict[str, Any]] | None = None) -> None:
    """Binds the account to a role, which is made from the rules where there are any."""
    made: dict[str, Any] = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": role}}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"s-{role}"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "kube-system"}],
    }
    apply(run, admin, *([{**made, "rules": rules}] if rules is not None else []), binding)
