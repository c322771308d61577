from __future__ import annotations

import json
import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from dray.server.authorization import User
from dray.server.security import audit_log
from dray.server.security.audit_events import Entry, Level, Target, safe_uri
from dray.server.security.audit_log import AuditLog
from dray.server.security.guard import Caller

from .cluster import user

JANE = user("jane")
PODS = Target("", "v1", "pods", "", "default", "web")
SECRET = "c3VwZXJzZWNyZXQ"


def entry(target: Target = PODS, caller: Caller | None = None, **changes: Any) -> Entry:
    fields: dict[str, Any] = {
        "audit_id": "id",
        "verb": "create",
        "path": "/api/v1/namespaces/default/pods",
        "query": "",
        "caller": caller or Caller(JANE, JANE),
        "target": target,
        "code": 201,
        "received": "2030-01-01T00:00:00.000000Z",
        "completed": "2030-01-01T00:00:00.001000Z",
        **changes,
    }
    return Entry(**fields)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def written(path: Path, *entries: Entry, **options: Any) -> list[dict[str, Any]]:
    log = AuditLog(path, **options)
    for one in entries:
        log.write(one)
    log.close()
    return lines(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit" / "audit.log"


def test_one_line_a_request(path: Path) -> None:
    (event,) = written(path, entry(source="127.0.0.1", agent="kubectl/v1", decision="allow", reason="RBAC: x"))
    assert event == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "id",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/default/pods",
        "verb": "create",
        "user": {"username": "jane", "groups": ["system:authenticated"]},
        "sourceIPs": ["127.0.0.1"],
        "userAgent": "kubectl/v1",
        "objectRef": {"resource": "pods", "namespace": "default", "name": "web", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 201},
        "requestReceivedTimestamp": "2030-01-01T00:00:00.000000Z",
        "stageTimestamp": "2030-01-01T00:00:00.001000Z",
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "RBAC: x"},
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_who_sent_it_and_as_whom(path: Path) -> None:
    (event,) = written(path, entry(caller=Caller(User("bob"), JANE)))
    assert (event["user"]["username"], event["impersonatedUser"]["username"]) == ("jane", "bob")


def test_levels(path: Path) -> None:
    levels = {("", "pods"): Level.REQUEST, ("", "events"): Level.NONE}
    body = {"kind": "Pod", "spec": {"nodeName": "n1"}}
    events = written(
        path,
        entry(body=body),
        entry(Target("", "v1", "events"), body=body),
        entry(Target("", "v1", "nodes"), body=body),
        levels=levels,
    )
    assert [event.get("requestObject") for event in events] == [body, None]


@pytest.mark.parametrize(
    ("target", "code"),
    [
        (Target("", "v1", "secrets", "", "default", "s"), 201),
        (Target("", "v1", "configmaps", "", "default", "s"), 201),
        (Target("", "v1", "serviceaccounts", "token", "default", "s"), 201),
        (Target("authentication.k8s.io", "v1", "tokenreviews"), 201),
        # A Secret that was posted to the wrong place.
        (PODS, 400),
        (Target(), 404),
    ],
)
def test_bodies_that_may_be_secret_are_left_out(path: Path, target: Target, code: int) -> None:
    body = {"kind": "Secret", "apiVersion": "v1", "stringData": {"password": SECRET}, "spec": {"token": SECRET}}
    (event,) = written(path, entry(target, body=body, code=code), level=Level.REQUEST)
    assert "requestObject" not in event
    assert SECRET not in path.read_text()


@pytest.mark.parametrize(
    "query", [f"token={SECRET}", f"access_token={SECRET}", f"a=b&to%6ben={SECRET}", f"X-Secret={SECRET}&limit=1"]
)
def test_credentials_in_the_query_are_blanked(path: Path, query: str) -> None:
    (event,) = written(path, entry(query=query, code=400))
    assert SECRET not in path.read_text()
    assert "REDACTED" in event["requestURI"]


def test_other_parameters_are_kept() -> None:
    query = "limit=500&fieldSelector=spec.nodeName%3Dn1&watch=true"
    assert safe_uri("/api/v1/pods", query) == f"/api/v1/pods?{query}"
    assert len(safe_uri("/a" * 9000, "")) < 5000


def test_nobody_writes_a_line_of_their_own(path: Path) -> None:
    forged = '\n{"kind":"Event","user":{"username":"bob"}}\n'
    events = written(
        path, entry(agent=forged, path="/x" + forged, query=forged), entry(caller=Caller(user(forged), JANE))
    )
    assert len(events) == 2
    assert "\n" not in events[0]["requestURI"]


def test_a_body_too_large_is_left_out_not_the_event(path: Path) -> None:
    (event,) = written(path, entry(body={"x": "y" * 100_000}), level=Level.REQUEST)
    assert event["level"] == "Metadata"


def test_the_file_turns_over(path: Path) -> None:
    written(path, *(entry(audit_id=str(number)) for number in range(1000)), max_bytes=100_000, backups=2)
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["audit.log", "audit.log.1", "audit.log.2"]
    assert all(file.stat().st_size <= 100_000 for file in files)
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    kept = [int(event["auditID"]) for file in reversed(files) for event in lines(file)]
    assert kept == list(range(kept[0], 1000))


def test_it_goes_on_where_it_was(path: Path) -> None:
    written(path, entry(audit_id="1"))
    with path.open("ab") as file:
        file.write(b'{"half a li')
    log = AuditLog(path)
    log.write(entry(audit_id="2"))
    log.close()
    *_, last = path.read_bytes().splitlines()
    assert json.loads(last)["auditID"] == "2"


def test_a_full_queue_drops_and_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    append = audit_log._RotatingFile.append

    def slow(self: Any, content: bytes) -> None:
        gate.wait(20)
        append(self, content)

    monkeypatch.setattr(audit_log._RotatingFile, "append", slow)
    log = AuditLog(path, queue_bytes=10_000)
    started = time.monotonic()
    for number in range(200):
        log.write(entry(audit_id=str(number)))
    assert time.monotonic() - started < 8, "writing waited for the disk"
    assert log.dropped > 0
    gate.set()
    log.close()
    events = lines(path)
    reported = sum(event["count"] for event in events if event["kind"] == "Dropped")
    kept = [event for event in events if event["kind"] == "Event"]
    assert reported == log.dropped
    assert len(kept) + reported == 200


def test_a_disk_that_refuses_is_counted_and_left_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(path)
    log.write(entry(audit_id="before"))
    wait_until(lambda: path.stat().st_size > 0)
    real_rename = path.parent.rename(path.parent.with_name("elsewhere"))
    log._file.close()
    log.write(entry(audit_id="lost"))
    wait_until(lambda: log.dropped == 1)
    real_rename.rename(path.parent)
    log.write(entry(audit_id="after"))
    log.close()
    assert [event.get("auditID", event.get("count")) for event in lines(path)] == ["before", 1, "after"]


def test_a_short_write_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Short(audit_log.FileIO):
        def write(self, content: Any) -> int:
            return super().write(content[:7]) or 0

    monkeypatch.setattr(audit_log, "FileIO", Short)
    assert len(written(path, *(entry() for _ in range(20)))) == 20


def test_events_after_the_end_are_counted(path: Path) -> None:
    log = AuditLog(path)
    log.close()
    log.write(entry())
    assert log.dropped == 1


def test_many_writers(path: Path) -> None:
    log = AuditLog(path)
    threads = [threading.Thread(target=lambda: [log.write(entry()) for _ in range(200)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    assert len(lines(path)) + log.dropped == 1600
    assert log.dropped == 0


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert condition(), os.getpid()
