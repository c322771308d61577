"""Selection of objects for a list, a watch or a deletion: a label and a field selector together.

Label selectors read `app=web,tier in (a, b),!canary`, field selectors `metadata.name=a,spec.nodeName!=b`; each kind has
its own short list of fields.

A `Selection` answers for a stored document. What the key alone can answer is answered from the key, labels from a
partial read, and only other fields cost the decoding of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dray.api import label_selectors, names
from dray.api.caches import remember
from dray.api.label_selectors import Labels, Matcher
from dray.api.objects import Object, int64
from dray.server import documents, status
from dray.server.parameters import MAX_REQUIREMENTS

Decode = Callable[[bytes], Object]
_TOKEN = re.compile(r"\s*(?:(?P<symbol>==|!=|=|!|,|\(|\)|<|>)|(?P<word>[^\s=!,()<>]+))")
Field = Callable[[Object], str]
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


@dataclass(frozen=True, slots=True)
class Selection:
    name: str = ""
    namespace: str = ""
    labels: tuple[Matcher, ...] = ()
    # (how to read the field, True if it must be equal, the value)
    fields: tuple[tuple[Field, bool, str], ...] = ()
    decode: Decode = documents.decode

    @property
    def everything(self) -> bool:
        return not (self.name or self.namespace or self.labels or self.fields)

    def matches(self, value: bytes) -> bool:
        if self.everything:
            return True
        metadata = documents.metadata(value)
        if (self.name and metadata.name != self.name) or (self.namespace and metadata.namespace != self.namespace):
            return False
        labels = metadata.labels or {}
        if not all(matcher(labels) for matcher in self.labels):
            return False
        if not self.fields:
            return True
        obj = self.decode(value)
        return all((read(obj) == wanted) is equal for read, equal, wanted in self.fields)


EVERYTHING = Selection()


def _unsupported(name: str, known: Mapping[str, Field]) -> str:
    if known.keys() <= {"metadata.name", "metadata.namespace"}:
        offered = ", ".join(f'"{name}"' for name in sorted(known))
        return f'"{name}" is not a known field selector: only {offered}'
    return f"field label not supported: {name}"


def select(parameters: Mapping[str, str], known: Mapping[str, Field], decode: Decode = documents.decode) -> Selection:
    """Returns the selection of a query; `known` has the selectable fields of the kind."""
    labels = parameters.get("labelSelector", "")
    fields = parameters.get("fieldSelector", "")
    if not labels and not fields:
        return EVERYTHING
    exact: dict[str, str] = {}
    others = []
    for name, equal, value in parse_fields(fields):
        read = known.get(name)
        if read is None:
            raise status.bad_request(_unsupported(name, known))
        if equal and value and name in ("metadata.name", "metadata.namespace") and name not in exact:
            exact[name] = value
        else:
            others.append((read, equal, value))
    return Selection(
        exact.get("metadata.name", ""),
        exact.get("metadata.namespace", ""),
        parse_labels(labels),
        tuple(others),
        decode,
    )


def _tokens(text: str) -> list[str]:
    found, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unreadable(text, f"unexpected {text[position]!r}")
        found.append(match["symbol"] or match["word"])
        position = match.end()
    return found


def _unreadable(text: str, why: str) -> status.ApiError:
    return status.bad_request(f'unable to parse requirement of selector "{text}": {why}')


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.position = 0

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if (expected and token != expected) or not token:
            raise _unreadable(self.text, f"found {token!r}, expected {expected or 'a word'!r}")
        self.position += 1
        return token

    def parse(self) -> list[Matcher]:
        matchers = []
        while self.peek():
            matchers.append(self.requirement())
            if len(matchers) > MAX_REQUIREMENTS:
                raise status.bad_request(f"a selector may have at most {MAX_REQUIREMENTS} requirements")
            if not self.peek():
                break
            self.take(",")
            if not self.peek():
                raise _unreadable(self.text, "found '', expected: identifier after ','")
        return matchers

    def requirement(self) -> Matcher:
        if self.peek() == "!":
            self.take()
            return label_selectors.absent(self.key())
        key = self.key()
        operator = self.peek()
        if operator in ("", ","):
            return label_selectors.present(key)
        self.take()
        if operator in ("=", "=="):
            return label_selectors.equal(key, self.value())
        if operator == "!=":
            return label_selectors.unequal(key, self.value())
        if operator in ("in", "notin"):
            return self.membership(key, operator == "in")
        if operator in (">", "<"):
            return self.comparison(key, operator)
        raise _unreadable(self.text, f"found {operator!r}, expected: in, notin, =, ==, !=, >, <")

    def membership(self, key: str, inside: bool) -> Matcher:
        self.take("(")
        values = {self.value()}
        while self.peek() == ",":
            self.take()
            values.add(self.value())
        self.take(")")
        return label_selectors.within(key, values) if inside else label_selectors.outside(key, values)

    def comparison(self, key: str, operator: str) -> Matcher:
        text = self.value()
        bound = int64(text)
        if bound is None:
            raise _unreadable(self.text, f"values[0]: Invalid value: {text!r}: must be an integer")

        def compare(labels: Labels) -> bool:
            given = int64(labels.get(key, ""))
            return given is not None and (given > bound if operator == ">" else given < bound)

        return compare

    def key(self) -> str:
        key = self.take()
        if not names.is_label_key(key):
            raise _unreadable(self.text, f"key: Invalid value: {key!r}: {names.LABEL_KEY_DETAIL}")
        return key

    def value(self) -> str:
        if self.peek() in ("", ",", ")"):
            return ""
        value = self.take()
        if not names.is_label_value(value):
            raise _unreadable(self.text, f"values[0]: Invalid value: {value!r}: {names.LABEL_VALUE_DETAIL}")
        return value


@remember(512, longest=4096)
def parse_labels(text: str) -> tuple[Matcher, ...]:
    return tuple(_Parser(text).parse())


def _at(*path: str, absent: str = "") -> Field:
    def read(obj: Object) -> str:
        value: Any = obj
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, bool):
            return str(value).lower()
        return absent if value is None else str(value)

    return read


def _paths(*dotted: str) -> dict[str, Field]:
    return {path: _at(*path.split(".")) for path in dotted}


_EVERY = _paths("metadata.name", "metadata.namespace")
_EVERY_CLUSTERED = _paths("metadata.name")


def _source(event: Object) -> str:
    return str((event.get("source") or {}).get("component") or event.get("reportingComponent") or "")


_FIELDS: dict[tuple[str, str], dict[str, Field]] = {
    ("resource.k8s.io", "ResourceSlice"): _paths("spec.nodeName", "spec.driver", "spec.pool.name"),
    ("", "Pod"): {
        **_paths(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ),
        "spec.hostNetwork": _at("spec", "hostNetwork", absent="false"),
    },
    ("", "Node"): {"spec.unschedulable": _at("spec", "unschedulable", absent="false")},
    ("", "Namespace"): _paths("status.phase"),
    ("", "Secret"): {"type": _at("type", absent="Opaque")},
    ("", "Event"): {
        **_paths(*(f"involvedObject.{member}" for member in _INVOLVED), "reason", "type", "reportingComponent"),
        "source": _source,
    },
    ("certificates.k8s.io", "CertificateSigningRequest"): _paths("spec.signerName"),
    ("certificates.k8s.io", "ClusterTrustBundle"): _paths("spec.signerName"),
    ("certificates.k8s.io", "PodCertificateRequest"): _paths("spec.signerName", "spec.podName", "spec.nodeName"),
    ("apiregistration.k8s.io", "APIService"): _paths("spec.service.name", "spec.service.namespace"),
    ("networking.k8s.io", "IPAddress"): _paths(
        "spec.parentRef.group", "spec.parentRef.resource", "spec.parentRef.namespace", "spec.parentRef.name"
    ),
    ("coordination.k8s.io", "LeaseCandidate"): _paths("spec.leaseName"),
    ("", "Service"): _paths("spec.clusterIP", "spec.type"),
    ("", "ReplicationController"): {"status.replicas": _at("status", "replicas", absent="0")},
    ("apps", "ReplicaSet"): {"status.replicas": _at("status", "replicas", absent="0")},
    ("batch", "Job"): {"status.successful": _at("status", "succeeded", absent="0")},
}


def fields(group: str, kind: str, *, namespaced: bool) -> dict[str, Field]:
    return {**(_EVERY if namespaced else _EVERY_CLUSTERED), **_FIELDS.get((group, kind), {})}


@remember(512)
def parse_fields(text: str) -> tuple[tuple[str, bool, str], ...]:
    """Returns (field, equal, value) of each term; a backslash escapes `,`, `=` and itself."""
    terms = []
    parts = [part for part in _split(text) if part]
    if len(parts) > MAX_REQUIREMENTS:
        raise status.bad_request(f"a selector may have at most {MAX_REQUIREMENTS} requirements")
    for term in parts:
        name, equal, value = _operator(term)
        terms.append((name, equal, _plain(value, text)))
    return tuple(terms)


def pinned(field_selector: str, field: str) -> str:
    """Returns the value that a field selector requires of a field; empty if it allows several."""
    if not field_selector:
        return ""
    return next((value for name, equal, value in parse_fields(field_selector) if equal and name == field), "")


def _split(text: str) -> list[str]:
    parts, part, escaped = [], "", False
    for char in text:
        if char == "," and not escaped:
            parts.append(part)
            part = ""
            continue
        escaped = char == "\\" and not escaped
        part += char
    return [*parts, part]


def _operator(term: str) -> tuple[str, bool, str]:
    for index, char in enumerate(term):
        if term.startswith("!=", index):
            return term[:index].strip(), False, term[index + 2 :]
        if term.startswith("==", index):
            return term[:index].strip(), True, term[index + 2 :]
        if char == "=":
            return term[:index].strip(), True, term[index + 1 :]
    raise status.bad_request(f"invalid selector: '{term}'; can't understand '{term}'")


def _plain(value: str, text: str) -> str:
    result, escaped = "", False
    for char in value:
        if escaped:
            if char not in "\\,=":
                raise status.bad_request(f"invalid field selector {text!r}: invalid escape sequence")
            result, escaped = result + char, False
        elif char == "\\":
            escaped = True
        elif char in ",=":
            raise status.bad_request(f"invalid field selector {text!r}: unescaped {char!r}")
        else:
            result += char
    if escaped:
        raise status.bad_request(f"invalid field selector {text!r}: invalid escape sequence")
    return result
