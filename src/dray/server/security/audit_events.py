"""Audit events: who did what, in the form of `audit.k8s.io/v1`, without the secrets.

What is written is chosen, not filtered: no header but the user agent, the URL with the values of suspicious parameters
blanked, and, at the level Request, the body of the request unless its resource may carry secrets. Bodies of refused
requests are left out: nobody has made sure what they are, and a Secret posted to the wrong path is still a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any
from urllib.parse import quote, unquote_plus

from dray.api.objects import Object
from dray.server.security.guard import Caller
from dray.server.security.users import user_info

MAX_AGENT = 256
MAX_URI = 4096
MAX_BODY = 64 * 1024
REDACTED = "REDACTED"

_SECRET_RESOURCES = frozenset({("", "secrets"), ("", "configmaps"), ("authentication.k8s.io", "tokenreviews")})
_SUSPICIOUS = ("token", "secret", "password", "passwd", "authorization", "credential", "key")


# Characters kept in a URI; all others, such as line breaks, are written as %XX.
_PLAIN = "/:%~?&=,+!*()'$@;"
_HARMLESS = re.compile(r"[A-Za-z0-9/:._-]*")


class Level(IntEnum):
    """How much of a request is logged."""

    NONE = 0
    METADATA = 1
    REQUEST = 2


@dataclass(frozen=True, slots=True)
class Target:
    """The resource of a request; empty members for a path that names no resource."""

    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An answered request. Times are RFC 3339; `body` is the decoded body, None without one."""

    audit_id: str
    verb: str
    path: str
    query: str
    caller: Caller | None
    target: Target
    code: int
    received: str
    completed: str
    source: str = ""
    agent: str = ""
    reason: str = ""
    decision: str = ""
    body: Any = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    stage: str = "ResponseComplete"


def audit_event(entry: Entry, level: Level) -> Object:
    caller = entry.caller
    body = _harmless_body(entry) if level >= Level.REQUEST else None
    impersonated = {"impersonatedUser": user_info(caller.user)} if caller is not None and caller.impersonates else {}
    annotations = {
        **({"authorization.k8s.io/decision": entry.decision} if entry.decision else {}),
        **({"authorization.k8s.io/reason": entry.reason} if entry.reason else {}),
        **entry.annotations,
    }
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": level.name.capitalize(),
        "auditID": entry.audit_id,
        "stage": entry.stage,
        "requestURI": safe_uri(entry.path, entry.query),
        "verb": entry.verb,
        "user": user_info(caller.sender) if caller is not None else {},
        **impersonated,
        **({"sourceIPs": [entry.source]} if entry.source else {}),
        **({"userAgent": entry.agent[:MAX_AGENT]} if entry.agent else {}),
        **({"objectRef": _reference(entry.target)} if entry.target.resource else {}),
        "responseStatus": {"metadata": {}, "code": entry.code},
        **({"requestObject": body} if body is not None else {}),
        "requestReceivedTimestamp": entry.received,
        "stageTimestamp": entry.completed,
        **({"annotations": annotations} if annotations else {}),
    }


def safe_uri(path: str, query: str) -> str:
    """Returns the URI of a request, shortened, without the values of parameters that may be credentials."""
    if not query and len(path) <= MAX_URI and _HARMLESS.fullmatch(path):
        return path
    parts = []
    for item in query.split("&") if query else ():
        name, equals, value = item.partition("=")
        plain = unquote_plus(name).lower()
        hide = any(word in plain for word in _SUSPICIOUS)
        parts.append(f"{name}{equals}{REDACTED if hide and value else value}")
    uri = quote(path + ("?" + "&".join(parts) if parts else ""), safe=_PLAIN)
    return uri if len(uri) <= MAX_URI else uri[:MAX_URI] + "…"


def _harmless_body(entry: Entry) -> Any:
    target = entry.target
    if (target.group, target.resource) in _SECRET_RESOURCES or target.subresource == "token":
        return None
    return entry.body if target.resource and entry.code < 400 else None


def _reference(target: Target) -> Object:
    members = {
        "resource": target.resource,
        "namespace": target.namespace,
        "name": target.name,
        "apiGroup": target.group,
        "apiVersion": target.version,
        "subresource": target.subresource,
    }
    return {name: value for name, value in members.items() if value}
