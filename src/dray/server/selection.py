"""Selection of objects for a list, a watch or a deletion: a label and a field selector together.

A `Selection` answers for a stored document. What the key alone can answer is answered from the key, labels from a
partial read, and only other fields cost the decoding of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dray.api.label_selectors import Matcher
from dray.api.objects import Object
from dray.server import documents, field_selectors, label_selectors, status
from dray.server.field_selectors import Field

Decode = Callable[[bytes], Object]


@dataclass(frozen=True, slots=True)
class Selection:
    name: str = ""
    namespace: str = ""
    labels: tuple[Matcher, ...] = ()
    # (how to read the field, whether it shall be equal, to what)
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
        offered = ", ".join(f'"{each}"' for each in sorted(known))
        return f'"{name}" is not a known field selector: only {offered}'
    return f"field label not supported: {name}"


def select(parameters: Mapping[str, str], known: Mapping[str, Field], decode: Decode = documents.decode) -> Selection:
    """The selection of a query; `known` are the fields the kind can be selected by."""
    labels = parameters.get("labelSelector", "")
    fields = parameters.get("fieldSelector", "")
    if not labels and not fields:
        return EVERYTHING
    exact: dict[str, str] = {}
    others = []
    for name, equal, value in field_selectors.parse(fields):
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
        label_selectors.parse(labels),
        tuple(others),
        decode,
    )
