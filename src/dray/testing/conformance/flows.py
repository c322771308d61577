"""The `flows` corpus: sequences of requests, each in its own namespace, with the answers of Kubernetes to every step.

`${ns}` in a path or body is the namespace of the flow, `${name}` what an earlier step saved. Of an answer, uids,
versions, times and generated names are not compared, nor managed fields unless a step asks for them.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from dray.api.objects import mapping
from dray.testing.conformance.api import first_difference, without_tokens
from dray.testing.conformance.corpus import Case, Outcome
from dray.testing.conformance.servers import Answer, InProcess, OverHttp, Server, create

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_GENERATED = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
_AGE = re.compile(r"<unknown>|\d+[smhd]\w*")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def run(case: Case) -> Outcome:
    server = InProcess()
    try:
        return play(case, server)
    finally:
        server.close()


def over_http(url: str, token: str) -> Callable[[Case], Outcome]:
    return lambda case: play(case, OverHttp(url, token))


def play(case: Case, server: Server) -> Outcome:
    namespace = "f" + uuid.uuid4().hex[:8]
    names = {"ns": namespace}
    create(server, "/api/v1/namespaces", named("Namespace", namespace))
    create(server, f"/api/v1/namespaces/{namespace}/serviceaccounts", named("ServiceAccount", "default"))
    difference = None
    for number, step in enumerate(case["steps"]):
        answer = _ask(server, step, names)
        for name, path in mapping(step.get("save")).items():
            names[name] = _dig(answer.document, path)
        found = first_difference(_by_manager(step["expect"]), _by_manager(_outline(answer, namespace, step)), "")
        if found:
            difference = f"step {number}, {step['method']} {step['path']}: {found}"
            break
    server.ask("DELETE", f"/api/v1/namespaces/{namespace}")
    return Outcome(case["name"], difference)


def named(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


def _ask(server: Server, step: dict[str, Any], names: dict[str, str]) -> Answer:
    body: bytes | None = None
    if "raw" in step:
        body = filled(step["raw"], names).encode()
    elif "body" in step:
        body = msgspec.json.encode(filled(step["body"], names))
    headers = {"accept": step.get("accept", "application/json")}
    if body is not None:
        headers["content_type"] = step.get("type", "application/json")
    return server.ask(step["method"], filled(step["path"], names), body, **headers)


def filled(value: Any, names: dict[str, str]) -> Any:
    """Replaces every `${name}` in a value."""
    if isinstance(value, str):
        return re.sub(r"\$\{(\w+)\}", lambda match: str(names[match[1]]), value)
    if isinstance(value, dict):
        return {filled(key, names): filled(item, names) for key, item in value.items()}
    return [filled(item, names) for item in value] if isinstance(value, list) else value


def _dig(document: Any, path: str) -> Any:
    try:
        for step in path.split("."):
            document = document[int(step)] if isinstance(document, list) else document[step]
    except (KeyError, IndexError, TypeError):
        return "missing"
    return document


def _outline(answer: Answer, namespace: str, step: dict[str, Any]) -> dict[str, Any]:
    """Returns the parts of an answer that are compared, depending on the step."""
    code, document = answer.code, None if step.get("watch") else answer.document
    if step.get("watch"):
        return {"code": code, "events": _events(answer)}
    if isinstance(document, dict) and document.get("kind") == "Status" and code >= 400:
        causes = mapping(document.get("details")).get("causes") or []
        pairs = sorted([cause.get("field", ""), cause.get("reason", "")] for cause in causes)
        return {"code": code, "reason": document.get("reason"), "causes": pairs}
    if step.get("codeOnly") or not isinstance(document, dict):
        return {"code": code}
    if step.get("names"):
        found = [_scrubbed(item["metadata"]["name"], namespace, False, "name") for item in document.get("items") or []]
        return {"code": code, "names": found, "more": bool(document["metadata"].get("continue"))}
    if document.get("kind") == "Table":
        rows = [_scrubbed(row["cells"], namespace, False, "cells") for row in document["rows"]]
        return {"code": code, "columns": [c["name"] for c in document["columnDefinitions"]], "rows": rows}
    return {"code": code, "answer": _scrubbed(without_tokens(document), namespace, step.get("keepManaged", False))}


def _by_manager(value: Any) -> Any:
    """Returns the document with managed fields of the same operation sorted by manager.

    Servers sort them by time first, and the requests of a flow may take more or less than a second.
    """
    if isinstance(value, list):
        return [_by_manager(item) for item in value]
    if not isinstance(value, dict):
        return value
    result = {name: _by_manager(item) for name, item in value.items()}
    if isinstance(entries := result.get("managedFields"), list):
        runs = groupby(entries, key=itemgetter("operation"))
        result["managedFields"] = [entry for _, run in runs for entry in sorted(run, key=itemgetter("manager"))]
    return result


def _events(answer: Answer) -> list[list[str]]:
    events = [msgspec.json.decode(line) for line in answer.body.splitlines() if line.strip()]
    shown = []
    for event in events:
        metadata = event["object"].get("metadata", {})
        if event["type"] != "BOOKMARK":
            shown.append([event["type"], metadata.get("name", ""), metadata.get("labels", {}).get("step", "")])
    return shown


def _scrubbed(value: Any, namespace: str, managed: bool, key: str = "") -> Any:
    if isinstance(value, dict):
        return _scrubbed_object(value, namespace, managed)
    if isinstance(value, list):
        items = [_scrubbed(item, namespace, managed) for item in value]
        if key == "cells":
            return ["*" if isinstance(item, str) and _AGE.fullmatch(item) else item for item in items]
        return items
    if not isinstance(value, str):
        return value
    if _TIME.fullmatch(value):
        return "<time>"
    if _UID.fullmatch(value):
        return "<uid>"
    value = value.replace(namespace, "<ns>")
    if key in ("name", "generated") and _GENERATED.search(value):
        return value[:-5] + "*****"
    return value


def _scrubbed_object(value: dict[str, Any], namespace: str, managed: bool) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, item in value.items():
        if name in ("selfLink", "remainingItemCount") or (name == "managedFields" and not managed):
            continue
        if name in ("resourceVersion", "continue") and isinstance(item, str):
            item = "*" if item else item
        elif name == _LAST_APPLIED:
            item = "*"
        else:
            item = _scrubbed(item, namespace, managed, name)
        result[_scrubbed(name, namespace, managed)] = item
    return result
