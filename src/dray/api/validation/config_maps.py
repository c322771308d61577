"""ConfigMaps and Secrets: keys that can be file names, at most 1 MiB in all, and nothing changed once immutable."""

from __future__ import annotations

import re

from dray.api import errors, names
from dray.api.objects import Object, annotations_of, mapping
from dray.api.rules import Rules
from dray.api.validation.fields import Errors

MAX_SIZE = 1024 * 1024
_MAX_KEY = 253
_KEY = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_KEY_DETAIL = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_IMMUTABLE = "field is immutable when `immutable` is set"


def validate(config_map: Object, rules: Rules) -> Errors:
    data, binary = mapping(config_map.get("data")), mapping(config_map.get("binaryData"))
    for member, content in (("data", data), ("binaryData", binary)):
        yield from _keys(content, member)
    for key in data.keys() & binary.keys():
        yield errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    if sum(map(names.size, data.values())) + sum(map(_decoded_size, binary.values())) > MAX_SIZE:
        yield errors.too_long("[]", MAX_SIZE)


def validate_update(config_map: Object, old: Object, rules: Rules) -> Errors:
    yield from _unchanged(config_map, old, ("data", "binaryData"))
    yield from validate(config_map, rules)


def validate_secret(secret: Object, rules: Rules) -> Errors:
    data = mapping(secret.get("data"))
    yield from _keys(data, "data")
    if sum(map(_decoded_size, data.values())) > MAX_SIZE:
        yield errors.too_long("data", MAX_SIZE)
    kind = secret.get("type")
    if kind == "kubernetes.io/service-account-token":
        if not annotations_of(secret).get(_SERVICE_ACCOUNT):
            yield errors.required(f"metadata.annotations[{_SERVICE_ACCOUNT}]")
    elif kind == "kubernetes.io/basic-auth" and not data.keys() & {"username", "password"}:
        yield errors.required("data[username]")
        yield errors.required("data[password]")
    for key in _NEEDED.get(kind or "", ()):
        if key not in data:
            yield errors.required(f"data[{key}]")


def validate_secret_update(secret: Object, old: Object, rules: Rules) -> Errors:
    if secret.get("type") != old.get("type"):
        yield errors.invalid("type", secret.get("type"), "field is immutable")
    yield from _unchanged(secret, old, ("data",))
    yield from validate_secret(secret, rules)


_SERVICE_ACCOUNT = "kubernetes.io/service-account.name"
_NEEDED = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _keys(content: Object, path: str) -> Errors:
    for key in content:
        if len(key) > _MAX_KEY:
            yield errors.invalid(f"{path}[{key}]", key, f"must be no more than {_MAX_KEY} characters")
        if _KEY.fullmatch(key) is None:
            yield errors.invalid(f"{path}[{key}]", key, _KEY_DETAIL)
        if key in (".", ".."):
            yield errors.invalid(f"{path}[{key}]", key, f"must not be '{key}'")
        elif key.startswith(".."):
            yield errors.invalid(f"{path}[{key}]", key, "must not start with '..'")


def _decoded_size(encoded: str | None) -> int:
    """Returns the size of base64 data after decoding."""
    return len(encoded.rstrip("=")) * 3 // 4 if encoded else 0


def _unchanged(obj: Object, old: Object, members: tuple[str, ...]) -> Errors:
    if not old.get("immutable"):
        return
    if not obj.get("immutable"):
        yield errors.forbidden("immutable", _IMMUTABLE)
    for member in members:
        if mapping(obj.get(member)) != mapping(old.get(member)):
            yield errors.forbidden(member, _IMMUTABLE)
