"""Secrets: text becomes data, and what was made immutable stays as it is; the latter for config maps too."""

from __future__ import annotations

import base64

from dray.api import errors
from dray.server import status
from dray.server.admission.attributes import Attributes

_CONTENT = {"Secret": ("data",), "ConfigMap": ("data", "binaryData")}


def settle(attributes: Attributes) -> None:
    if attributes.kind not in (("", "Secret"), ("", "ConfigMap")):
        return
    if attributes.kind == ("", "Secret"):
        _settle_text(attributes)
    _keep_immutable(attributes)


def _settle_text(attributes: Attributes) -> None:
    secret = attributes.obj
    text = secret.pop("stringData", None)
    if text:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}
    if not secret.get("type"):
        secret["type"] = "Opaque"
    if attributes.old is not None and secret["type"] != attributes.old.get("type"):
        problem = errors.invalid("type", secret["type"], "field is immutable")
        raise status.invalid("Secret", "", attributes.name, [problem])


def _keep_immutable(attributes: Attributes) -> None:
    old, new = attributes.old, attributes.obj
    if old is None or not old.get("immutable"):
        return
    problems = [
        errors.forbidden(member, "field is immutable when `immutable` is set")
        for member in (*_CONTENT[attributes.resource.kind], "immutable")
        if old.get(member) != new.get(member)
    ]
    if problems:
        raise status.invalid(attributes.resource.kind, "", attributes.name, problems)
