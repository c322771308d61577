"""Kubeconfig files: how `kubectl` and every other client finds the server.

Two forms, because kubectl has two ways to go wrong. Over https it asks for a user name on the terminal unless the file
has credentials; over plain http it drops whatever credentials there are and says nothing. So the one form always has
them and the other never does.
"""

from __future__ import annotations

import base64
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from dray.api.objects import Object
from dray.server.security.certificates import Credential
from dray.server.security.loopback import is_loopback
from dray.server.security.private_files import write_private
from dray.yaml.writing import as_yaml


class KubeconfigError(ValueError):
    """Raised for a combination that kubectl would misuse, or a path that cannot be written."""


def secure(
    server: str, authority: bytes, *, credential: Credential | None = None, token: str = "", name: str = "dray"
) -> Object:
    """Returns a kubeconfig for TLS, with a client certificate or a token."""
    if urlsplit(server).scheme != "https":
        raise KubeconfigError(f"{server} is not https: credentials would not be sent")
    if (credential is None) == (not token):
        raise KubeconfigError("give either a client certificate or a token")
    if credential is not None:
        user = {
            "client-certificate-data": _encode(credential.certificate),
            "client-key-data": _encode(credential.key),
        }
    else:
        user = {"token": token}
    return _document(name, {"server": server, "certificate-authority-data": _encode(authority)}, user)


def without_credentials(server: str, authority: bytes) -> Object:
    """Returns a kubeconfig with server and authority only, for clients with other credentials."""
    cluster = {"server": server, "certificate-authority-data": _encode(authority)}
    return {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": cluster}]}


def plain(server: str, *, name: str = "dray") -> Object:
    """Returns a kubeconfig for a server on loopback without TLS, which needs no credentials."""
    parts = urlsplit(server)
    if parts.scheme != "http" or not is_loopback(parts.hostname or ""):
        raise KubeconfigError(f"{server} is not plain http on loopback")
    return _document(name, {"server": server}, {})


def write_kubeconfig(path: Path, document: Object) -> bytes:
    """Writes the file atomically, readable by its owner only. Returns the content."""
    content = as_yaml([document]).encode()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, content)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise KubeconfigError(
            f"cannot write the kubeconfig {path}: {why}; --kubeconfig FILE writes it elsewhere"
        ) from error
    return content


def remove_kubeconfig(path: Path, written: bytes) -> None:
    """Removes the file, unless its content was changed meanwhile."""
    with suppress(OSError):
        if path.read_bytes() == written:
            path.unlink()


def bootstrap(server: str, authority: bytes, token: str, *, name: str = "dray") -> Object:
    """Returns a kubeconfig with a bootstrap token, for a kubelet that requests its first certificate."""
    cluster = {"server": server, "certificate-authority-data": _encode(authority)}
    return _document(name, cluster, {"token": token}, called="kubelet-bootstrap")


def _document(name: str, cluster: Object, user: Object, *, called: str = "") -> Object:
    called = called or f"{name}-admin"
    context = {"cluster": name, "user": called, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": called, "user": user}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()
