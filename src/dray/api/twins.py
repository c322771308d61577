"""Objects made from one template: what became of a spec holds for the next object that has the same one.

All of a pod or a claim but its metadata follows from its spec and the rules it is judged by. Where a spec was accepted
once, only the metadata of its next bearer is looked at. Whatever is out of the ordinary goes the long way (intake),
which knows what to say of it: nothing is refused here.

Twins share what lies deeper in them than the members of their parts (`spec.containers`): it must not be changed.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

import msgspec

from dray.api import intake, schema, strategy, validation
from dray.api.catalogue import RESOURCE_GROUP, KindVersion
from dray.api.intake import Accepted, Place
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation.pods import MIRROR_ANNOTATION

_KINDS: Final = frozenset({("", "Pod"), (RESOURCE_GROUP, "ResourceClaim")})
_MEMBERS: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_METADATA: Final = "meta_v1.ObjectMeta"
_MOST: Final = 128
_LONGEST: Final = 16 * 1024

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What an accepted object was besides its metadata."""

    rules: Rules
    rest: Object
    sent: Object | None


class Twins:
    """For one kind in its hub version. Remembers a limited number of specs of limited length."""

    def __init__(self, target: KindVersion) -> None:
        self._target = target
        self._known: OrderedDict[bytes, _Outcome] = OrderedDict()

    @classmethod
    def of(cls, target: KindVersion) -> Twins | None:
        """None for kinds of which objects are not made by the dozen."""
        known = (target.group, target.kind) in _KINDS and intake.hub(target.entry) == target
        return cls(target) if known else None

    def key(self, document: Object) -> bytes | None:
        """What objects that are alike have in common; None for one that goes the long way."""
        if not document.keys() <= _MEMBERS or document.get("status"):
            return None
        if document.get("apiVersion") != self._target.api_version or document.get("kind") != self._target.kind:
            return None
        metadata = document.get("metadata")
        if type(metadata) is not dict or MIRROR_ANNOTATION in (metadata.get("annotations") or ()):
            return None
        spec = _encode(document.get("spec"))
        return spec if len(spec) <= _LONGEST else None

    def create(self, key: bytes, document: Object, place: Place, rules: Rules) -> Accepted | None:
        """What `intake.create` would accept, written; None where that is not known."""
        outcome = self._known.get(key)
        if outcome is None or outcome.rules is not rules:
            return None
        metadata, problems = schema.read(document["metadata"], _METADATA)
        obj = {"metadata": metadata}
        if problems or intake.settle_namespace(obj, self._target, place):
            return None
        strategy.prepare_metadata(metadata, self._target.entry)
        if validation.validate_metadata(metadata, self._target.entry):
            return None
        with contextlib.suppress(KeyError):
            # Another thread may have put it out meanwhile.
            self._known.move_to_end(key)
        metadata = schema.written(metadata, _METADATA)
        head = {"apiVersion": self._target.api_version, "kind": self._target.kind, "metadata": metadata}
        made = {**head, **_parts(outcome.rest)}
        return Accepted(made, sent=None if outcome.sent is None else {**head, **outcome.sent})

    def learn(self, key: bytes, rules: Rules, accepted: Accepted) -> None:
        """`accepted` is written, and as it was before admission."""
        sent = None if accepted.sent is None else deepcopy(_rest(accepted.sent))
        self._known[key] = _Outcome(rules, deepcopy(_rest(accepted.object)), sent)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)


def _rest(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}


def _parts(rest: Object) -> Object:
    return {name: dict(part) if isinstance(part, dict) else part for name, part in rest.items()}
