"""Reads kubeconfig files as kubectl does: several files make one, and the first to name something wins.

A context is resolved when it is used; an invalid user of an unused context does no harm. Programs that fetch
credentials (`exec`) are run by whoever connects; the older `auth-provider` is not supported.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dray.api.objects import mappings
from dray.client.endpoint import Endpoint
from dray.client.errors import ConfigError
from dray.client.exec_credentials import API_VERSIONS, ExecConfig

_EXTENSION = "client.authentication.k8s.io/exec"
_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A cluster, user or context, and the folder for its relative paths."""

    name: str
    values: Mapping[str, Any] = field(repr=False)
    folder: Path

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ConfigError(f"{key} of {self.name!r} in the kubeconfig is not a text")
        return value

    def path(self, key: str) -> Path | None:
        value = self.text(key)
        return self.folder / value if value else None

    def content(self, key: str) -> bytes | None:
        """Returns the content of `key-data`, or of the file that `key` names; None without either."""
        if data := self.text(f"{key}-data"):
            try:
                return base64.b64decode(data, validate=True)
            except binascii.Error as error:
                raise ConfigError(f"{key}-data of {self.name!r} in the kubeconfig is not base64") from error
        path = self.path(key)
        if path is None:
            return None
        try:
            return path.read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read {key} of {self.name!r}: {error}") from error


class Kubeconfig:
    def __init__(self) -> None:
        self.current_context = ""
        self._entries: dict[str, dict[str, Entry]] = {section: {} for section in _SECTIONS}

    @classmethod
    def load(cls, paths: Sequence[Path] = (), *, environ: Mapping[str, str] = os.environ) -> Kubeconfig:
        """Loads the given files, else those in $KUBECONFIG, else ~/.kube/config.

        Of several files, some may be missing.
        """
        paths = paths or [Path(file) for file in environ.get("KUBECONFIG", "").split(os.pathsep) if file]
        paths = paths or [Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"]
        config, missing = cls(), []
        for path in paths:
            try:
                text = path.read_text()
            except FileNotFoundError:
                missing.append(str(path))
                continue
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"cannot read the kubeconfig {path}: {error}") from error
            config.merge(text, path)
        if len(missing) == len(paths):
            raise ConfigError(f"no kubeconfig at {', '.join(missing)}")
        return config

    def merge(self, text: str, path: Path) -> None:
        try:
            document = yaml.safe_load(text) or {}
        except yaml.YAMLError as error:
            raise ConfigError(f"{path} is not YAML: {error}") from error
        if not isinstance(document, dict):
            raise ConfigError(f"{path} is not a kubeconfig")
        self.current_context = self.current_context or str(document.get("current-context") or "")
        for section, key in _SECTIONS.items():
            for item in document.get(section) or ():
                if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                    raise ConfigError(f"{path}: {section} must be a list of named entries")
                values = item.get(key) or {}
                if not isinstance(values, dict):
                    raise ConfigError(f"{path}: {key} {item['name']!r} is not a mapping")
                self._entries[section].setdefault(item["name"], Entry(item["name"], values, path.absolute().parent))

    @property
    def contexts(self) -> list[str]:
        return list(self._entries["contexts"])

    def endpoint(self, context: str = "") -> Endpoint:
        """Returns the endpoint of a context, by default the current one."""
        name = context or self.current_context
        if not name:
            raise ConfigError("the kubeconfig names no current context")
        chosen = self._entry("contexts", name)
        cluster = self._entry("clusters", chosen.text("cluster"))
        user = Entry("", {}, Path())
        if chosen.text("user"):
            user = self._entry("users", chosen.text("user"))
        if user.values.get("auth-provider"):
            raise ConfigError(
                f"user {user.name!r} gets its credentials by auth-provider, which is not supported: "
                "use exec, a token, a token file or a client certificate"
            )
        return _endpoint(chosen, cluster, user)

    def _entry(self, section: str, name: str) -> Entry:
        try:
            return self._entries[section][name]
        except KeyError:
            raise ConfigError(f"the kubeconfig has no {_SECTIONS[section]} {name!r}") from None


def _endpoint(context: Entry, cluster: Entry, user: Entry) -> Endpoint:
    # As in kubectl, a token in the kubeconfig wins over a token file, and both over an exec plugin.
    token = user.text("token")
    written = any(user.text(member) for member in ("token", "tokenFile", "username"))
    return Endpoint(
        server=cluster.text("server"),
        namespace=context.text("namespace") or "default",
        ca=cluster.content("certificate-authority"),
        insecure=bool(cluster.values.get("insecure-skip-tls-verify")),
        tls_server_name=cluster.text("tls-server-name"),
        certificate=user.content("client-certificate"),
        key=user.content("client-key"),
        token=token,
        token_file=None if token else user.path("tokenFile"),
        username=user.text("username"),
        password=user.text("password"),
        impersonate=user.text("as"),
        proxy=cluster.text("proxy-url"),
        program=None if written else _program(user, cluster),
    )


def _program(user: Entry, cluster: Entry) -> ExecConfig | None:
    """Returns the `exec` plugin of a user, if there is one."""
    values = user.values.get("exec")
    if not values:
        return None
    if not isinstance(values, dict):
        raise ConfigError(f"exec of user {user.name!r} in the kubeconfig is not a mapping")
    entry = Entry(user.name, values, user.folder)
    version, command = entry.text("apiVersion"), entry.text("command")
    mode = entry.text("interactiveMode") or ("IfAvailable" if version.endswith("/v1beta1") else "")
    if version not in API_VERSIONS:
        raise ConfigError(
            f"user {user.name!r} gets its credentials by exec, which is not supported with the apiVersion {version!r}: "
            f"it may be {' and '.join(API_VERSIONS)}"
        )
    if not command or mode not in ("Never", "IfAvailable", "Always"):
        modes = "an interactiveMode: Never, IfAvailable or Always"
        raise ConfigError(f"exec of user {user.name!r} needs a command and {modes}")
    return ExecConfig(
        user=user.name,
        # A name is searched in $PATH, a relative path starts from the kubeconfig's folder.
        command=str(user.folder / command) if os.sep in command else command,
        arguments=tuple(map(str, values.get("args") or ())),
        environment={str(variable.get("name")): str(variable.get("value")) for variable in mappings(values.get("env"))},
        api_version=version,
        interactive=mode,
        hint=entry.text("installHint"),
        cluster=_told(cluster) if values.get("provideClusterInfo") is True else None,
    )


def _told(cluster: Entry) -> dict[str, Any]:
    """Returns the information on a cluster for an exec plugin."""
    ca = cluster.content("certificate-authority")
    told = {
        "server": cluster.text("server"),
        "tls-server-name": cluster.text("tls-server-name"),
        "insecure-skip-tls-verify": bool(cluster.values.get("insecure-skip-tls-verify")),
        "certificate-authority-data": base64.b64encode(ca).decode() if ca else "",
        "proxy-url": cluster.text("proxy-url"),
    }
    settings = [
        extension for extension in mappings(cluster.values.get("extensions")) if extension.get("name") == _EXTENSION
    ]
    told["config"] = settings[0].get("extension") if settings else None
    return {name: value for name, value in told.items() if value}
