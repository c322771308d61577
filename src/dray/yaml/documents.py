"""The YAML reader: text into plain values and positions.

The one reader of what people send and keep in files: request bodies of the API server and manifests of the command
line mean the same. The parser's events are folded into values with an explicit stack: no recursion, no composer, and
every limit is checked before the memory is spent. An alias shares the value of its anchor but is charged for its full
size and height, and so is what a merge key takes over, so that a few lines cannot stand for a billion nodes.

Merge keys (`<<`) are followed in the order they are written, as Kubernetes' reader does; tags are refused. Of a
duplicate key the last one counts; `parse` refuses it, because one of two readings of the file would be wrong, and
`first` tells of it, because an API server leaves it to its client what to do then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from dray.yaml.scalars import key_text, resolve
from dray.yaml.text import ManifestError, Position, decode

MAX_DEPTH: Final = 100
MAX_NODES: Final = 500_000
# Text that an alias repeats is charged as a node for so many letters.
_LETTERS_A_NODE: Final = 32
# As many duplicate keys are told of.
_MOST_DUPLICATES: Final = 100

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG_PREFIX: Final = "tag:yaml.org,2002:"
_RESOLVED_TAGS: Final = frozenset({"null", "bool", "int", "float", "timestamp"})


@dataclass(frozen=True, slots=True)
class Document:
    value: Any
    place: Position


def parse(data: bytes) -> list[Document]:
    """The documents in `data`, empty ones left out. Raises ManifestError without a source."""
    return [document for document in _documents(decode(data), None) if document.value is not None]


def first(data: bytes) -> tuple[Any, list[str]]:
    """The first document in `data`, and what there is to say about its duplicate keys.

    Parts of the document may be the same object as others. Raises ManifestError without a source.
    """
    duplicates: list[str] = []
    for document in _documents(decode(data), duplicates):
        return document.value, duplicates
    return None, duplicates


def _documents(text: str, duplicates: list[str] | None) -> Iterator[Document]:
    try:
        yield from _Builder(text, duplicates).documents()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text) from None
    except yaml.YAMLError as error:
        raise ManifestError(f"not YAML: {' '.join(str(error).split())}", line=1, column=1) from None


def _syntax_error(error: yaml.MarkedYAMLError, text: str) -> ManifestError:
    mark = error.problem_mark or error.context_mark
    what = ", ".join(part for part in (error.problem, error.context) if part)
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    end = len(text.rstrip())
    if mark and text[mark.index : mark.index + 1] == "\t":
        advice = "indent with spaces, not tabs"
    elif mark and mark.index >= end:
        line, column = text.count("\n", 0, end) + 1, end - text.rfind("\n", 0, end)
        advice = "the file ends too early: it may be truncated"
    elif "<document start>" in what:
        advice = "put --- between documents"
    else:
        advice = "check the indentation, quotes and brackets at and above this line"
    return ManifestError(f"not YAML: {what}; {advice}", line=line, column=column)


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end is not read yet."""

    place: Position
    anchor: str | None
    charged_before: int
    height: int = 1


@dataclass(slots=True)
class _Sequence(_Open):
    value: list[Any] = field(default_factory=list)
    below: list[Position] = field(default_factory=list)


@dataclass(slots=True)
class _Mapping(_Open):
    """`key` is set between a key and its value; `merging` after `<<`."""

    value: dict[str, Any] = field(default_factory=dict)
    below: dict[str, Position] = field(default_factory=dict)
    key: str | None = None
    merging: bool = False
    # The keys that a merge brought and that are not written in the mapping itself.
    merged: set[str] | None = None

    @property
    def expects_key(self) -> bool:
        return self.key is None and not self.merging


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Any
    place: Position
    size: int
    height: int


class _Builder:
    """Folds one stream of events into documents; without a list for duplicate keys, it refuses them."""

    def __init__(self, text: str, duplicates: list[str] | None) -> None:
        self._text = text
        self._duplicates = duplicates
        self._nodes = 0
        self._letters = 0
        self._stack: list[_Sequence | _Mapping] = []
        self._anchors: dict[str, _Anchored | None] = {}
        self._root: Document | None = None

    def documents(self) -> Iterator[Document]:
        loader = _LOADER(self._text)
        try:
            while loader.check_event():
                event = loader.get_event()
                if isinstance(event, yaml.NodeEvent):
                    self._node(event)
                elif isinstance(event, yaml.CollectionEndEvent):
                    self._close()
                elif isinstance(event, yaml.DocumentEndEvent):
                    assert self._root is not None
                    yield self._root
                    self._anchors.clear()
                    self._root = None
        finally:
            loader.dispose()

    def _node(self, event: Any) -> None:
        place = Position(event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, yaml.AliasEvent):
            self._alias(str(event.anchor), place)
            return
        self._charge(1, place)
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event, place)
        else:
            self._open(event, place)

    def _open(self, event: Any, place: Position) -> None:
        self._check_depth(1, place)
        self._refuse_as_key(place)
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", _TAG_PREFIX + ("map" if is_mapping else "seq")):
            raise _unknown_tag(event.tag, place)
        if event.anchor:
            self._anchors[event.anchor] = None
        frame = (_Mapping if is_mapping else _Sequence)(place, event.anchor, self._charged() - 1)
        place.below = frame.below
        self._stack.append(frame)

    def _close(self) -> None:
        frame = self._stack.pop()
        if frame.anchor:
            size = self._charged() - frame.charged_before
            self._anchors[frame.anchor] = _Anchored(frame.value, frame.place, size, frame.height)
        self._put(frame.value, frame.place, frame.height)

    def _scalar(self, event: Any, place: Position) -> None:
        parent = self._stack[-1] if self._stack else None
        if isinstance(parent, _Mapping) and parent.expects_key and event.value == "<<" and event.implicit[0]:
            if parent.merged is not None and self._duplicates is None:
                raise _error("duplicate key '<<': merge a list of aliases instead", place)
            parent.merging = True
            return
        value = _scalar_value(event, place)
        self._letters += len(event.value)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, place, 1 + len(event.value) // _LETTERS_A_NODE, 0)
        self._put(value, place, 0)

    def _alias(self, anchor: str, place: Position) -> None:
        self._refuse_as_key(place)
        if anchor not in self._anchors:
            raise _error(f"the alias *{anchor} has no anchor &{anchor} before it in this document", place)
        anchored = self._anchors[anchor]
        if anchored is None:
            raise _error(f"the alias *{anchor} stands inside its own anchor; write the value out", place)
        self._charge(anchored.size, place)
        self._check_depth(anchored.height, place)
        place.below = anchored.place.below
        self._put(anchored.value, place, anchored.height)

    def _put(self, value: Any, place: Position, height: int) -> None:
        """Hands a finished node to the collection around it."""
        if not self._stack:
            self._root = Document(value, place)
            return
        parent = self._stack[-1]
        parent.height = max(parent.height, height + 1)
        if isinstance(parent, _Sequence):
            parent.value.append(value)
            parent.below.append(place)
        elif parent.merging:
            self._merge(parent, value, place)
            parent.merging = False
        elif parent.key is None:
            parent.key = self._new_key(parent, value, place)
            parent.below[parent.key] = place
        else:
            parent.value[parent.key] = value
            parent.below[parent.key].below = place.below
            parent.key = None

    def _refuse_as_key(self, place: Position) -> None:
        parent = self._stack[-1] if self._stack else None
        if isinstance(parent, _Mapping) and parent.expects_key:
            raise _error("a key must be a plain string, not a list, a mapping or an alias", place)

    def _new_key(self, parent: _Mapping, value: Any, place: Position) -> str:
        key = key_text(value)
        if key is None:
            raise _error(f"{value!r} cannot be a key: write a quoted string", place)
        if parent.merged and key in parent.merged:
            parent.merged.discard(key)
        elif key in parent.below:
            first = parent.below[key].line
            self._duplicate(key, place, f"duplicate key {_shortened(key)!r}, first on line {first}: remove one")
        return key

    def _merge(self, parent: _Mapping, value: Any, place: Position) -> None:
        """Takes over what `<<` names; of several mappings the first counts."""
        merged = parent.merged = parent.merged or set()
        for values, places in reversed(_merge_sources(value, place)):
            for key in values:
                if key in parent.below and key not in merged:
                    problem = f"<< replaces the key {_shortened(key)!r} of line {parent.below[key].line}"
                    self._duplicate(key, place, f"{problem}: write << first, or remove the key")
                else:
                    merged.add(key)
            parent.value.update(values)
            parent.below.update(places)

    def _duplicate(self, key: str, place: Position, problem: str) -> None:
        if self._duplicates is None:
            raise _error(problem, place)
        if len(self._duplicates) < _MOST_DUPLICATES:
            self._duplicates.append(f'line {place.line}: key "{_shortened(key)}" already set in map')

    def _charge(self, nodes: int, place: Position) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            problem = f"more than {MAX_NODES:,} nodes, aliases counted in full"
            excess = "the document contains excessive aliasing: " if nodes > 1 else ""
            raise _error(f"{excess}{problem}; split the file or use fewer aliases", place)

    def _charged(self) -> int:
        return self._nodes + self._letters // _LETTERS_A_NODE

    def _check_depth(self, height: int, place: Position) -> None:
        if len(self._stack) + height > MAX_DEPTH:
            raise _error(f"nested more than {MAX_DEPTH} levels deep; no Kubernetes object needs that", place)


def _scalar_value(event: Any, place: Position) -> Any:
    tag = event.tag
    if tag in ("!", _TAG_PREFIX + "str") or (tag is None and not event.implicit[0]):
        return event.value
    if tag is not None and tag.removeprefix(_TAG_PREFIX) not in _RESOLVED_TAGS:
        raise _unknown_tag(tag, place)
    value = resolve(event.value)
    if isinstance(value, float) and not math.isfinite(value):
        raise _error(f"{event.value[:40]} is not a number in JSON; quote it if it is text", place)
    return value


def _shortened(key: str) -> str:
    return key if len(key) <= 80 else key[:77] + "..."


def _merge_sources(value: Any, place: Position) -> list[tuple[dict[str, Any], dict[str, Position]]]:
    sources = value if isinstance(value, list) else [value]
    places = place.below if isinstance(place.below, list) else [place]
    merged = []
    for source, where in zip(sources, places, strict=True):
        if not isinstance(source, dict) or not isinstance(where.below, dict):
            raise _error("<< merges mappings: give an alias of a mapping or a list of them", place)
        merged.append((source, where.below))
    return merged


def _unknown_tag(tag: str, place: Position) -> ManifestError:
    return _error(f"the tag {tag} has no meaning in a manifest; remove it", place)


def _error(message: str, place: Position) -> ManifestError:
    return ManifestError(message, line=place.line, column=place.column)
