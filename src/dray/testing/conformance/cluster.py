"""The `cluster` corpus: sequences of changes to pods, claims, nodes and devices, with the resulting state of a cluster.

A story happens in a namespace of its own, `${ns}`, and cluster-scoped objects carry it in their names, so that stories
do not meet. After each step the cluster is given time to settle; then pods and claims are outlined and compared.
Nothing runs the pods: a step sets their phase where it matters.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from dray.api.catalogue import built_in
from dray.api.objects import Object, spec_of, status_of
from dray.api.resource_claims import is_protected
from dray.testing.conformance.api import first_difference
from dray.testing.conformance.corpus import Case, Outcome
from dray.testing.conformance.flows import filled, named
from dray.testing.conformance.servers import Answer, OverHttp, Server, create, handled

_GENERATED = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
_MERGE: Final = "application/merge-patch+json"
_VERSION: Final = "resource.k8s.io/v1"
_GROUP: Final = f"/apis/{_VERSION}"
_CLUSTER_SCOPED: Final = tuple(
    built_in(api_version, kind)
    for api_version, kind in (
        (_VERSION, "DeviceClass"),
        (_VERSION, "DeviceTaintRule"),
        ("v1", "Node"),
        ("scheduling.k8s.io/v1", "PriorityClass"),
        (_VERSION, "ResourceSlice"),
    )
)
# Seconds without a change after which a step counts as settled; shorter in this process.
QUIET_HERE: Final = 0.3
QUIET: Final = 2.0
_LONGEST: Final = 25.0
_AT_ONCE: Final = 6


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


class Play:
    """Plays one story on one server."""

    def __init__(self, server: Server, scheduler: str, quiet: float) -> None:
        self._server = server
        self._quiet = quiet
        self._namespace = "s" + uuid.uuid4().hex[:8]
        self._names = {"ns": self._namespace, "scheduler": scheduler}

    def run(self, story: Case) -> Outcome:
        create(self._server, "/api/v1/namespaces", named("Namespace", self._namespace))
        accounts = f"/api/v1/namespaces/{self._namespace}/serviceaccounts"
        create(self._server, accounts, named("ServiceAccount", "default"))
        try:
            return Outcome(story["name"], self._difference(story["steps"]))
        finally:
            self._clear()

    def _difference(self, steps: Sequence[Object]) -> str | None:
        for number, step in enumerate(steps):
            expected = {part: step["expect"][part] for part in ("pods", "claims")}
            for action in step["do"]:
                self._act(action)
            difference = first_difference(expected, self._settled(expected), "")
            if difference:
                return f"step {number}: {difference}"
        return None

    # Actions

    def _act(self, action: Object) -> None:
        ((verb, what),) = action.items()
        if verb == "wait":
            time.sleep(what)
        elif verb == "create":
            self._create(filled(what, self._names))
        elif verb == "delete":
            self._ask("DELETE", filled(what[0], self._names))
        else:
            content_type = what[2] if len(what) > 2 else _MERGE
            self._ask("PATCH", filled(what[0], self._names), filled(what[1], self._names), content_type)

    def _create(self, document: Object) -> None:
        kind = built_in(document["apiVersion"], document["kind"])
        root = _root(kind.api_version)
        place = f"/namespaces/{self._namespace}" if kind.namespaced else ""
        self._ask("POST", f"{root}{place}/{kind.plural}", document)
        if kind.kind == "Node":
            # A server may taint a new node as not ready.
            taints = {"spec": {"taints": spec_of(document).get("taints")}}
            self._ask("PATCH", f"{root}/nodes/{document['metadata']['name']}", taints, _MERGE)

    def _ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Answer:
        if body is None:
            return self._server.ask(method, path)
        return self._server.ask(method, path, msgspec.json.encode(body), content_type=content_type)

    def _clear(self) -> None:
        for root, plural in (("/api/v1", "pods"), (_GROUP, "resourceclaims")):
            self._ask("DELETE", f"{root}/namespaces/{self._namespace}/{plural}?gracePeriodSeconds=0")
        for kind in _CLUSTER_SCOPED:
            path = f"{_root(kind.api_version)}/{kind.plural}"
            for item in self._items(path):
                if self._namespace in item["metadata"]["name"]:
                    self._ask("DELETE", f"{path}/{item['metadata']['name']}")
        self._ask("DELETE", f"/api/v1/namespaces/{self._namespace}")

    # Outlines

    def _settled(self, expected: Object) -> Object:
        """Returns the outline of the cluster once it has not changed for a while; longer if it is unexpected."""
        began = since = time.monotonic()
        last = None
        while (now := time.monotonic()) - began < _LONGEST:
            outline = self._outline()
            if outline != last:
                last, since = outline, now
            elif now - since >= (self._quiet if outline == expected else max(self._quiet, QUIET)):
                break
            time.sleep(self._quiet / 6)
        return last or {}

    def _items(self, path: str) -> list[Object]:
        document = self._ask("GET", path).document
        return document.get("items") or [] if isinstance(document, dict) else []

    def _outline(self) -> Object:
        pods = [self._pod(pod) for pod in self._items(f"/api/v1/namespaces/{self._namespace}/pods")]
        claims = [self._claim(claim) for claim in self._items(f"{_GROUP}/namespaces/{self._namespace}/resourceclaims")]
        return {"pods": sorted(pods, key=lambda pod: pod["name"]), "claims": sorted(claims, key=_in_order)}

    def _pod(self, pod: Object) -> Object:
        status = status_of(pod)
        condition = next(
            (condition for condition in status.get("conditions") or () if condition["type"] == "PodScheduled"), None
        )
        claims = status.get("resourceClaimStatuses") or ()
        return {
            "name": pod["metadata"]["name"],
            "node": self._plain(pod["spec"].get("nodeName", "")) or None,
            "scheduled": [condition["status"], condition.get("reason", "")] if condition else None,
            "claims": sorted([claim["name"], self._short(claim.get("resourceClaimName") or "")] for claim in claims),
            "extended": bool(status.get("extendedResourceClaimStatus")),
            "deleting": "deletionTimestamp" in pod["metadata"],
            "phase": status.get("phase"),
        }

    def _claim(self, claim: Object) -> Object:
        metadata, status = claim["metadata"], status_of(claim)
        allocation = status.get("allocation")
        protected = is_protected(claim)
        return {
            "name": self._short(metadata["name"]),
            "owners": [
                [owner["kind"], owner["name"], owner.get("controller", False)]
                for owner in metadata.get("ownerReferences", ())
            ],
            "annotations": metadata.get("annotations", {}),
            "labels": metadata.get("labels", {}),
            "protected": protected if allocation else None,
            "devices": self._devices(allocation) if allocation else None,
            "reservedFor": sorted(
                [consumer["resource"], consumer["name"]] for consumer in status.get("reservedFor") or ()
            ),
            "deleting": "deletionTimestamp" in metadata,
        }

    def _devices(self, allocation: Object) -> list[list[str]]:
        return [
            [result["request"], self._plain(result["driver"]), self._plain(result["pool"]), result["device"]]
            for result in allocation["devices"].get("results", ())
        ]

    def _plain(self, text: str) -> str:
        return text.replace(self._namespace, "<ns>")

    def _short(self, name: str) -> str:
        return self._plain(_GENERATED.sub("-*****", name))


def _in_order(claim: Object) -> str:
    """Returns the sort key of a claim, as in the recorded cases."""
    return json.dumps(claim)


class InThread:
    """Runs a LocalCluster with all parts in a thread."""

    def __init__(self, scheduler: str) -> None:
        from dray.controllers.registry import CONTROLLERS
        from dray.scheduling.scheduler import Options
        from dray.testing.threaded import ThreadedCluster

        self._cluster = ThreadedCluster(scheduler=Options(scheduler), controllers=CONTROLLERS)
        self._cluster.start()

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        return self._cluster.call(handled(self._cluster.local.server, method, path, body or b"", headers))

    def close(self) -> None:
        self._cluster.stop()


def play_here(stories: Iterable[Case], scheduler: str = "default-scheduler") -> list[Outcome]:
    """Plays stories in this process, several at a time because they mostly wait."""
    server = InThread(scheduler)
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(lambda story: Play(server, scheduler, QUIET_HERE).run(story), stories))
    finally:
        server.close()


def play_there(
    stories: Iterable[Case], url: str, token: str = "", scheduler: str = "default-scheduler"
) -> list[Outcome]:
    """Plays stories on a running control plane, one after the other as they were recorded."""
    server = OverHttp(url, token)
    return [Play(server, scheduler, QUIET).run(story) for story in stories]
