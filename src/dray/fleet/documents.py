"""Files of fleets: MachineType, GpuModel, Fleet and Stages documents, read into structs.

A mistake is a `ManifestError` with file, line, column and what to do. `rules` looks at what the shape alone does not
tell.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from dray.fleet.fleet_spec import Fleet, Machines
from dray.fleet.machine_type import API_VERSION, Gpus, MachineType, NamedGpuModel, Nics, NumaNode, Port, Tpus
from dray.fleet.stages import DeviceStage, Match, NodeStage, PodStage, Stages
from dray.yaml.documents import Document, parse
from dray.yaml.text import ManifestError

Content = MachineType | NamedGpuModel | Fleet | Stages

MAX_BYTES: Final = 16 * 1024 * 1024
_KINDS: Final[dict[str, type[Content]]] = {
    "MachineType": MachineType,
    "GpuModel": NamedGpuModel,
    "Fleet": Fleet,
    "Stages": Stages,
}
_STRUCTS: Final = (
    *_KINDS.values(),
    Machines,
    Gpus,
    Nics,
    NumaNode,
    Port,
    Tpus,
    PodStage,
    DeviceStage,
    NodeStage,
    Match,
)
_MEMBERS: Final = sorted({name for struct in _STRUCTS for name in struct.__struct_encode_fields__})
_PATH: Final = re.compile(r" - at (?:`key` in )?`\$\.?([^`]*)`$")
_FIELD: Final = re.compile(r"field `([^`]*)`")
_TYPE: Final = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")


@dataclass(frozen=True, slots=True)
class Found:
    """A document with its place, for what is found wrong with it later."""

    source: str
    document: Document
    content: Content

    def error(self, path: str, message: str) -> ManifestError:
        place = self.document.place.find(path)
        return ManifestError(f"{path}: {message}", source=self.source, line=place.line, column=place.column)


@dataclass(slots=True)
class Library:
    """Documents by kind and name."""

    machine_types: dict[str, Found] = field(default_factory=dict)
    gpu_models: dict[str, Found] = field(default_factory=dict)
    fleets: list[Found] = field(default_factory=list)
    stages: list[Found] = field(default_factory=list)

    def add(self, found: Found) -> None:
        """Adds a document; replaces a machine type or GPU model of the same name."""
        match found.content:
            case MachineType(name=name):
                self.machine_types[name] = found
            case NamedGpuModel(name=name):
                self.gpu_models[name] = found
            case Fleet():
                self.fleets.append(found)
            case Stages():
                self.stages.append(found)


def read_file(path: Path) -> list[Found]:
    """Reads a fleet file. Raises ManifestError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ManifestError(f"larger than {MAX_BYTES // 2**20} MiB; split it", source=str(path), line=1, column=1)
        data = path.read_bytes()
    except OSError as error:
        raise ManifestError(f"cannot read: {(error.strerror or str(error)).lower()}", source=str(path)) from None
    return read(data, str(path))


def read(data: bytes, source: str) -> list[Found]:
    try:
        documents = parse(data)
    except ManifestError as error:
        error.source = source
        raise
    return [Found(source, document, _content(document, source)) for document in documents]


def _content(document: Document, source: str) -> Content:
    value = document.value
    kind = value.get("kind") if isinstance(value, dict) else None
    struct = _KINDS.get(kind) if isinstance(kind, str) else None
    if struct is None:
        problem = (
            f"kind: {kind!r} is none of {', '.join(_KINDS)}; write apiVersion: {API_VERSION} and one of these kinds"
        )
        raise _error(document, source, "kind", problem)
    try:
        return msgspec.convert(value, struct, str_keys=True)
    except msgspec.ValidationError as error:
        path, message = _told(str(error), value)
        raise _error(document, source, path, f"{path}: {message}" if path else message) from None


def _error(document: Document, source: str, path: str, message: str) -> ManifestError:
    place = document.place.find(path)
    return ManifestError(message, source=source, line=place.line, column=place.column)


def _told(text: str, value: Any) -> tuple[str, str]:
    """The path, and what is wrong there and how to mend it."""
    found = _PATH.search(text)
    path, problem = (found[1].removesuffix("[...]"), text[: found.start()]) if found else ("", text)
    if (name := _FIELD.search(problem)) is not None:
        return _member(path, problem, name[1])
    if (kinds := _TYPE.search(problem)) is not None:
        return path, f"{_words(kinds[2])} where {_words(kinds[1])} belongs"
    if problem.startswith("Invalid enum value"):
        return path, f"{problem[0].lower()}{problem[1:]}: docs/fleet.md lists the values"
    return path, problem[0].lower() + problem[1:]


def _member(path: str, problem: str, name: str) -> tuple[str, str]:
    below = f"{path}.{name}" if path else name
    if "missing" in problem:
        return below, "is missing; add it"
    close = difflib.get_close_matches(name, _MEMBERS, 1)
    advice = f"did you mean {close[0]}?" if close else "remove it"
    return below, f"there is no such member here; {advice}"


def _words(types: str) -> str:
    names = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "array": "a list"}
    names |= {"object": "a mapping", "null": "nothing"}
    return " or ".join(names.get(each.strip(), each.strip()) for each in types.split("|") if each.strip() != "null")
