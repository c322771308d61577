"""Events of `events.k8s.io/v1`: what the core group stores, with other names for the same members."""

from __future__ import annotations

from typing import Any

from dray.api import schema
from dray.api.catalogue import KindVersion, find
from dray.api.intake import Accepted, Place, Refusal
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.server import documents
from dray.server.resources import BuiltIn, key_prefix

# core/v1 → events.k8s.io/v1
_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_BACK = {new: old for old, new in _NAMES.items()}
_ROOT = ("kind", "apiVersion")


def _renamed(obj: Object, names: dict[str, str], api_version: str) -> Object:
    return {
        **{names.get(name, name): value for name, value in obj.items() if name not in _ROOT},
        "kind": "Event",
        "apiVersion": api_version,
    }


def _field(name: str) -> str:
    """What a field that events are selected by is called in the newer group."""
    first, dot, rest = name.partition(".")
    return _NAMES.get(first, first) + dot + rest


class EventResource(BuiltIn):
    def __init__(self, target: KindVersion) -> None:
        super().__init__(target)
        core = find("v1", "Event")
        assert core is not None
        self._core = BuiltIn(core)
        self.storage_group, self.storage_version = "", "v1"
        self.key_prefix = key_prefix("", self.plural)
        self.columns = self._core.columns
        self.fields = {_field(name): read for name, read in self._core.fields.items() if name != "source"}

    def create(self, document: Object, place: Place, rules: Rules, now: str) -> Accepted | Refusal:
        return self._in_core_form(super().create(document, place, rules, now))

    def update(
        self, document: Object, old: Object, place: Place, rules: Rules, now: str, subresource: str
    ) -> Accepted | Refusal:
        return self._in_core_form(super().update(document, self._new(old), place, rules, now, subresource))

    def _in_core_form(self, verdict: Accepted | Refusal) -> Accepted | Refusal:
        if isinstance(verdict, Refusal):
            return verdict
        core = schema.write(_renamed(verdict.object, _BACK, "v1"), self._core.schema)
        return Accepted(core, sent=verdict.object)

    def _new(self, core: Object) -> Object:
        return schema.write(_renamed(core, _NAMES, self.api_version), self.schema)

    def read(self, value: bytes) -> Object:
        return self._core.read(value)

    def encoder(self, obj: Object) -> documents.Encoder:
        return self._core.encoder(obj)

    def answer(self, obj: Object) -> Object:
        return documents.ordered(self._new(obj), self.kind, self.api_version)

    def present(self, value: bytes) -> bytes:
        return documents.encode(self.answer(self.read(value)))

    def item(self, value: bytes) -> bytes:
        return b"{" + self.present(value)[len(self._opening) :]

    def tracked_form(self, obj: Object) -> Object:
        return self.answer(obj)

    def row(self, obj: Object, now: str) -> list[Any]:
        return self._core.row(obj, now)
