"""Auditing of requests: what the log is told once a request is answered."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import msgspec

from dray.api.protobuf import envelope
from dray.api.protobuf.envelope import UnknownKindError
from dray.api.protobuf.wire import WireError
from dray.server import paths
from dray.server.requests import Request
from dray.server.security.audit_events import Entry, Level, Target
from dray.server.security.audit_log import AuditLog
from dray.server.security.guard import Caller

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Auditor:
    def __init__(self, log: AuditLog) -> None:
        self._log = log

    def note(self, request: Request, caller: Caller | None, code: int, received: str, source: str) -> None:
        path = paths.parse(request.path)
        target = (
            Target(path.group, path.version, path.plural, path.subresource, path.namespace, path.name)
            if path
            else Target()
        )
        level = self._log.level_for(target.group, target.resource)
        if level is Level.NONE:
            return
        self._log.write(
            Entry(
                audit_id=str(uuid.uuid4()),
                verb=request.verb or _VERBS.get(request.method, request.method.lower()),
                path=request.path,
                query=request.query,
                caller=caller,
                target=target,
                code=code,
                received=received,
                completed=now(),
                source=source,
                agent=request.headers.get("user-agent", ""),
                reason=request.reason,
                annotations=request.annotations,
                decision=_decision(caller, code),
                body=_body(request) if level >= Level.REQUEST else None,
            )
        )


def _decision(caller: Caller | None, code: int) -> str:
    if caller is None:
        return ""
    return "forbid" if code == 403 else "allow"


def _body(request: Request) -> Any:
    try:
        if request.body.startswith(envelope.MAGIC):
            return envelope.decode(request.body)
        return request.decoded_body() if request.body else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, WireError, UnknownKindError):
        return None
