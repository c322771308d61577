"""Exec credential plugins: the `exec` of a kubeconfig, by client.authentication.k8s.io v1 and v1beta1.

The program gets an ExecCredential in KUBERNETES_EXEC_INFO and prints one with a token, a client certificate or both.
Clusters of cloud providers are reached that way. What it gives is used until it expires or the server refuses it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from dray.client.errors import ConfigError

API_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_KIND: Final = "ExecCredential"
_PATIENCE: Final = 60.0
_PATIENCE_WITH_PEOPLE: Final = 300.0
"""Timeout in seconds for a plugin that may ask the user to log in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecConfig:
    user: str
    """Name of the user in the kubeconfig, for messages."""
    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = API_VERSIONS[0]
    interactive: str = "IfAvailable"
    """Whether the plugin may ask the user at the terminal: Never, IfAvailable or Always."""
    hint: str = ""
    """How to install the plugin."""
    cluster: Mapping[str, Any] | None = None
    """Information on the cluster for the plugin, if it asks for it."""


@dataclass(frozen=True, slots=True)
class ExecCredential:
    token: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    expires: float | None = None
    """Expiry in seconds since 1970; None if unknown."""


async def fetch(program: ExecConfig, *, patience: float | None = None) -> ExecCredential:
    """Runs the plugin and returns its credentials; raises ConfigError if they cannot be used."""
    interactive = program.interactive != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if program.interactive == "Always" and not interactive:
        raise _failed(program, "needs a terminal, and there is none")
    limit = patience or (_PATIENCE_WITH_PEOPLE if interactive else _PATIENCE)
    try:
        process = await asyncio.create_subprocess_exec(
            program.command,
            *program.arguments,
            env={**os.environ, **program.environment, "KUBERNETES_EXEC_INFO": _info(program, interactive)},
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError:
        raise _failed(program, f"is not installed{f'. {program.hint}' if program.hint else ''}") from None
    except OSError as error:
        raise _failed(program, f"cannot be run: {error.strerror or error}") from None
    try:
        output, _ = await asyncio.wait_for(process.communicate(), limit)
    except TimeoutError:
        raise _failed(program, f"did not end within {limit:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise _failed(program, f"ended with status {process.returncode}")
    return _read(program, output)


def _info(program: ExecConfig, interactive: bool) -> str:
    spec: dict[str, Any] = {"interactive": interactive}
    if program.cluster is not None:
        spec["cluster"] = dict(program.cluster)
    return json.dumps({"apiVersion": program.api_version, "kind": _KIND, "spec": spec})


def _read(program: ExecConfig, output: bytes) -> ExecCredential:
    try:
        document = json.loads(output)
    except ValueError:
        raise _failed(program, "does not print JSON") from None
    said = (document.get("apiVersion"), document.get("kind")) if isinstance(document, dict) else (None, None)
    if said != (program.api_version, _KIND):
        raise _failed(program, f"does not print an {_KIND} of {program.api_version}, as the kubeconfig wants")
    status = document.get("status")
    members = ("token", "clientCertificateData", "clientKeyData", "expirationTimestamp")
    values = [(status.get(member) or "") if isinstance(status, dict) else "" for member in members]
    if not all(isinstance(value, str) for value in values):
        raise _failed(program, "prints a status that is not text")
    token, certificate, key, expires = values
    if bool(certificate) != bool(key) or not (token or certificate):
        raise _failed(program, "prints neither a token nor a certificate with its key")
    return ExecCredential(token, certificate.encode(), key.encode(), _moment(program, expires) if expires else None)


def _moment(program: ExecConfig, text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _failed(program, f"prints a time that cannot be read: {text[:40]!r}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _failed(program: ExecConfig, what: str) -> ConfigError:
    return ConfigError(f"user {program.user!r} gets its credentials from the program {program.command!r}, which {what}")
