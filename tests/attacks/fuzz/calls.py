"""The calls of a fuzz run: an endless sequence that follows from the seed and from what is refused.

Objects are created, changed in every way the API has, and deleted, under a few names in a few namespaces, so that
calls meet objects and objects meet each other. From time to time everything is deleted, lest the run depends on its
length. What is under the canary's names is left alone.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import yaml

from dray.api.catalogue import every_version, find
from dray.api.conversion import ConversionError, convert
from dray.api.wire_types import TYPES
from tests.attacks.cluster import EXAMPLES
from tests.attacks.fuzz import protobuf
from tests.attacks.fuzz.mutations import mutated, walk
from tests.attacks.fuzz.seeds import OTHERS, documents
from tests.attacks.fuzz.values import NAMES, NAMESPACES, NODES, ODD_NUMBERS, ODD_STRINGS, value

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
# How many calls lie between two times that everything is deleted.
SWEEP = 5000
Edit = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass
class Call:
    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    # The path of the object that is there if the call is accepted.
    creates: str = ""
    # Makes the body from the object that is there now.
    edit: Edit | None = None
    watch: bool = False


@dataclass(frozen=True)
class Seed:
    """An object to start from: its type on the wire and the collection that it belongs to."""

    document: dict[str, Any]
    wire: str
    prefix: str
    plural: str
    namespaced: bool
    subresources: tuple[str, ...]

    def path(self, name: str, namespace: str) -> str:
        return f"{self.collection(namespace)}/{quote(name, safe='')}"

    def collection(self, namespace: str) -> str:
        return (
            f"{self.prefix}/namespaces/{namespace}/{self.plural}" if self.namespaced else f"{self.prefix}/{self.plural}"
        )


def seeds() -> list[Seed]:
    """Every document in every version of its kind."""
    found = []
    for document in documents(EXAMPLES / "lab") + documents(EXAMPLES / "manifests"):
        known = find(document["apiVersion"], document["kind"])
        if known is None:
            found.append(_other(document))
            continue
        for version in known.entry.versions:
            try:
                converted = convert(document, version.name)
            except ConversionError:
                continue
            prefix = f"/apis/{known.group}/{version.name}" if known.group else f"/api/{version.name}"
            entry = known.entry
            found.append(Seed(converted, version.schema, prefix, entry.plural, entry.namespaced, entry.subresources))
    return found


def _other(document: dict[str, Any]) -> Seed:
    """A kind that is not in the catalogue: a custom one, or a question that is not stored."""
    custom = document["kind"] == "Thing"
    prefix = f"/apis/{document['apiVersion']}"
    subresources = ("status", "scale") if custom else ()
    return Seed(document, "any", prefix, OTHERS[document["kind"]], custom, subresources)


class Calls:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._seeds: dict[str, list[Seed]] = {}
        for each in seeds():
            self._seeds.setdefault(each.plural, []).append(each)
        # Kinds that a scheduler or a controller reads come more often.
        self._plurals = [*self._seeds, *["pods", "resourceclaims", "resourceslices", "jobs", "nodes"] * 4]
        self._plurals += ["resourceclaimtemplates", "deviceclasses", "devicetaintrules", "podgroups"] * 2
        self._there: set[str] = set()
        self._touched: set[str] = set()

    def __iter__(self) -> Iterator[Call]:
        for namespace in NAMESPACES:
            yield Call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        number = 0
        while True:
            number += 1
            if number % SWEEP == 0:
                yield from self._sweep()
            yield self._next()

    def _next(self) -> Call:
        random = self.random
        seed = random.choice(self._seeds[random.choice(self._plurals)])
        namespace = random.choice(NAMESPACES)
        name = self._name(seed)
        path = seed.path(name, namespace)
        if seed.document["kind"] in OTHERS and seed.document["kind"] != "Thing":
            return self._sent(Call("POST", seed.collection(namespace), self._object(seed, name)))
        if path not in self._there and random.random() < 0.9:
            self._there.add(path)
            self._touched.add(path)
            return self._create(seed, name, namespace)
        action = random.choices(
            (self._update, self._patch, self._apply, self._subresource, self._delete, self._read, self._odd),
            (14, 22, 10, 18, 26, 8, 2),
        )[0]
        return action(seed, name, namespace)

    def _name(self, seed: Seed) -> str:
        if seed.plural == "nodes":
            return self.random.choice(NODES)
        if seed.plural == "customresourcedefinitions":
            return str(seed.document["metadata"]["name"])
        return self.random.choice(NAMES)

    def _object(self, seed: Seed, name: str) -> dict[str, Any]:
        document = mutated(self.random, seed.document, seed.wire, self.random.choice([0, 1, 1, 1, 2, 2, 4]))
        if isinstance(document.get("metadata"), dict) and self.random.random() < 0.98:
            document["metadata"]["name"] = name
            document["metadata"].pop("namespace", None)
        return document

    def _create(self, seed: Seed, name: str, namespace: str) -> Call:
        path = seed.path(name, namespace)
        return self._sent(Call("POST", seed.collection(namespace), self._object(seed, name), creates=path))

    def refused(self, call: Call) -> None:
        """Tells that an object was not created."""
        self._there.discard(call.creates)

    def _update(self, seed: Seed, name: str, namespace: str) -> Call:
        return Call("PUT", seed.path(name, namespace), edit=self._edit(seed))

    def _edit(self, seed: Seed) -> Edit:
        random = Random(self.random.random())
        return lambda document: mutated(random, document, seed.wire, random.choice([1, 1, 2, 4]))

    def _patch(self, seed: Seed, name: str, namespace: str, below: str = "") -> Call:
        random = self.random
        path = seed.path(name, namespace) + below
        kind = random.choice([MERGE, MERGE, STRATEGIC, JSON_PATCH])
        if kind == JSON_PATCH:
            return self._sent(Call("PATCH", path, self._operations(seed), {"Content-Type": kind}))
        return self._sent(Call("PATCH", path, self._part(seed), {"Content-Type": kind}))

    def _part(self, seed: Seed) -> dict[str, Any]:
        """A mutated place of the object, with what leads to it."""
        random = self.random
        document = mutated(random, seed.document, seed.wire, 2)
        place = random.choice(list(walk(document, seed.wire)) or [None])
        if place is None:
            return {}
        part = value(random, place.field, place.wire) if random.random() < 0.5 else place.value
        for step in reversed(place.path):
            part = {step: part} if isinstance(step, str) else [part]
        if isinstance(part, dict) and random.random() < 0.1:
            part["$patch"] = random.choice(["replace", "delete", "merge", "x"])
        return part if isinstance(part, dict) else {}

    def _operations(self, seed: Seed) -> list[dict[str, Any]]:
        random = self.random
        places = list(walk(mutated(random, seed.document, seed.wire, 1), seed.wire)) or list(
            walk(seed.document, seed.wire)
        )
        found = []
        for _ in range(random.choice([1, 1, 2, 5])):
            place, other = random.choice(places), random.choice(places)
            pointer, source = (
                "/" + "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in each.path)
                for each in (place, other)
            )
            operation = random.choice(["add", "replace", "remove", "copy", "move", "test"])
            if random.random() < 0.1:
                pointer = random.choice(["/metadata/labels/-", "", "/", "//", "/spec/~2", "/spec/containers/99", "x"])
            step = {"op": operation, "path": pointer}
            if operation in {"copy", "move"}:
                step["from"] = source
            elif operation != "remove":
                step["value"] = value(random, place.field, place.wire)
            found.append(step)
        return found

    def _apply(self, seed: Seed, name: str, namespace: str) -> Call:
        random = self.random
        document = self._object(seed, name)
        if random.random() < 0.5:
            document = {each: document[each] for each in ("apiVersion", "kind", "metadata") if each in document}
            document |= self._part(seed)
        query = {"fieldManager": random.choice(["a", "b", "kubectl"]), "force": random.choice(["true", "false"])}
        headers = {"Content-Type": APPLY}
        return Call("PATCH", f"{seed.path(name, namespace)}?{urlencode(query)}", json.dumps(document), headers)

    def _subresource(self, seed: Seed, name: str, namespace: str) -> Call:
        random = self.random
        path = seed.path(name, namespace)
        if not seed.subresources:
            return self._patch(seed, name, namespace)
        below = random.choice(seed.subresources)
        if below == "binding":
            target = random.choice([{"kind": "Node", "name": random.choice([*NODES, "big", "nowhere"])}, {"name": "x"}])
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            return self._sent(Call("POST", f"{path}/binding", mutated(random, body, "core_v1.Binding", 1)))
        if below == "eviction":
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            return self._sent(Call("POST", f"{path}/eviction", mutated(random, body, "any", random.randint(0, 1))))
        if below == "token":
            spec = {"audiences": [value(random, "", "str")], "expirationSeconds": value(random, "", "int64")}
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
            return self._sent(Call("POST", f"{path}/token", body))
        if below in {"exec", "log"}:
            return Call(random.choice(["GET", "POST"]), f"{path}/{below}?{urlencode(self._query())}")
        if below == "scale":
            body = {"spec": {"replicas": value(random, "", "int32")}}
            return self._sent(Call("PATCH", f"{path}/scale", body, {"Content-Type": MERGE}))
        if below == "status" and random.random() < 0.7:
            return self._status(seed, path)
        if random.random() < 0.5:
            return Call("PUT", f"{path}/{below}", edit=self._edit(seed))
        return self._patch(seed, name, namespace, f"/{below}")

    def _status(self, seed: Seed, path: str) -> Call:
        """A status made from its type, over the one that is there."""
        random = self.random
        wire = TYPES.get(seed.wire, {}).get("status", "any")
        status = value(random, "", wire)
        if isinstance(status, dict) and len(status) > 3 and random.random() < 0.7:
            status = {key: status[key] for key in random.sample(sorted(status), 3)}
        if random.random() < 0.5:
            return self._sent(Call("PATCH", f"{path}/status", {"status": status}, {"Content-Type": MERGE}))

        def edit(document: dict[str, Any]) -> dict[str, Any]:
            old = document.get("status")
            merged = {**old, **status} if isinstance(old, dict) and isinstance(status, dict) else status
            return {**document, "status": merged}

        return Call("PUT", f"{path}/status", edit=edit)

    def _delete(self, seed: Seed, name: str, namespace: str) -> Call:
        random = self.random
        path = seed.path(name, namespace)
        self._there.discard(path)
        if random.random() < 0.02 and seed.namespaced:
            return Call("DELETE", f"{seed.collection(namespace)}?{urlencode(self._query(selectors_only=True))}")
        options: dict[str, Any] = {}
        if random.random() < 0.6:
            options["gracePeriodSeconds"] = random.choice([0, 0, 0, 1, -1, 2**31, 2**63])
        if random.random() < 0.3:
            options["propagationPolicy"] = random.choice(["Foreground", "Background", "Orphan", "x"])
        if random.random() < 0.05:
            options["preconditions"] = {random.choice(["uid", "resourceVersion"]): random.choice(["1", "", "x"])}
        document = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        if random.random() < 0.2 and (encoded := protobuf.body(random, document)) is not None:
            return Call("DELETE", path, encoded, {"Content-Type": protobuf.PROTOBUF})
        return Call("DELETE", path, options or None)

    def _read(self, seed: Seed, name: str, namespace: str) -> Call:
        random = self.random
        places = [seed.path(name, namespace), seed.collection(namespace), f"{seed.prefix}/{seed.plural}"]
        path = f"{random.choice(places)}?{urlencode(self._query(), doseq=True)}"
        accept = random.choice(
            [
                "application/json",
                "application/yaml",
                "application/json;as=Table;v=v1;g=meta.k8s.io",
                "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
                protobuf.PROTOBUF,
                f"{protobuf.PROTOBUF},application/json",
                f"{protobuf.PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
                "text/html",
                "*/*;q=0.1",
                ";;;",
            ]
        )
        if random.random() < 0.3:
            return Call("GET", f"{path}&watch=true&timeoutSeconds=20", headers={"Accept": accept}, watch=True)
        return Call("GET", path, headers={"Accept": accept})

    def _query(self, *, selectors_only: bool = False) -> dict[str, Any]:
        random = self.random
        possible: dict[str, list[Any]] = {
            "labelSelector": ["app=a", "app in (a,b)", "!zone", "num>3", "a b", "app=" + "x" * 5000, "(" * 500],
            "fieldSelector": ["metadata.name=o-1", "spec.nodeName=n-0", "status.phase!=Failed", "x=y", "=", "a" * 5000],
        }
        if not selectors_only:
            possible |= {
                "limit": [1, 3, 0, *ODD_NUMBERS],
                "continue": ["x", "eyJ2IjoxfQ==", "0" * 5000],
                "resourceVersion": ["0", "1", "999999999", "x", "-1", "9" * 5000],
                "resourceVersionMatch": ["Exact", "NotOlderThan", "x"],
                "allowWatchBookmarks": ["true", "x"],
                "sendInitialEvents": ["true", "false"],
                "timeoutSeconds": ["1", "0", "-1", "1e9", "9" * 400],
                "pretty": ["true", "x"],
                "dryRun": ["All", "x"],
                "fieldValidation": ["Strict", "Warn", "Ignore", "x"],
                "container": ["c", "x"],
                "tailLines": ["1", "-1", "9" * 400],
            }
        chosen = random.sample(sorted(possible), random.randint(0, min(3, len(possible))))
        return {name: random.choice(possible[name]) for name in chosen}

    def _odd(self, seed: Seed, name: str, namespace: str) -> Call:
        """Requests that do not fit: other methods, names and bodies than belong there."""
        random = self.random
        path = random.choice([seed.path(name, namespace), seed.collection(namespace)])
        if random.random() < 0.3:
            path = seed.path(random.choice(ODD_STRINGS), namespace)
        body = random.choice(
            [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"a":' * 5000, b"k8s\0" + b"\x0a" * 50, b"a: &a [*a]"]
        )
        kinds = [
            "application/json",
            "application/yaml",
            protobuf.PROTOBUF,
            "text/plain",
            MERGE,
            APPLY,
        ]
        # All of a kind may only go where nobody else is.
        deleting = ["DELETE"] if seed.namespaced else []
        method = random.choice(["POST", "PUT", "PATCH", "GET", "HEAD", "OPTIONS", "X", *deleting])
        return Call(method, path, body, {"Content-Type": random.choice(kinds)})

    def _sent(self, call: Call) -> Call:
        """Some bodies as YAML and some as protobuf, some with parameters."""
        random = self.random
        if isinstance(call.body, dict) and "Content-Type" not in call.headers:
            form = random.random()
            if form < 0.1:
                # Objects that are too deep for PyYAML go as JSON.
                with suppress(RecursionError):
                    call.body = yaml.safe_dump(call.body, allow_unicode=True)
                    call.headers["Content-Type"] = "application/yaml"
            elif form < 0.35 and (encoded := protobuf.body(random, call.body)) is not None:
                call.body = encoded
                call.headers["Content-Type"] = protobuf.PROTOBUF
        if random.random() < 0.2:
            call.headers["Accept"] = f"{protobuf.PROTOBUF},application/json"
        if random.random() < 0.1:
            parameters = {"dryRun": "All", "fieldManager": "m", "fieldValidation": "Strict"}
            call.path += "?" + urlencode(dict(random.sample(sorted(parameters.items()), 1)))
        return call

    def _sweep(self) -> Iterator[Call]:
        """Everything is deleted, also what waits for a finalizer."""
        finalizers = {"metadata": {"finalizers": None}}
        for path in sorted(self._touched):
            yield Call("PATCH", path, copy.deepcopy(finalizers), {"Content-Type": MERGE})
            yield Call("DELETE", path, {"gracePeriodSeconds": 0})
        for known in every_version():
            if known.namespaced and known.version == known.entry.versions[0].name:
                prefix = f"/apis/{known.group}/{known.version}" if known.group else f"/api/{known.version}"
                for namespace in NAMESPACES:
                    path = f"{prefix}/namespaces/{namespace}/{known.plural}"
                    yield Call("DELETE", f"{path}?gracePeriodSeconds=0&propagationPolicy=Background")
        self._there.clear()
        self._touched.clear()
