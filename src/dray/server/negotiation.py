"""Content negotiation: the Accept and Content-Type headers."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from dray.api.caches import remember
from dray.server import status

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
# Read and not written: clients that send it take JSON as well.
CBOR = "application/cbor"
# In the order in which they are offered to a client that takes any.
MEDIA_TYPES = (JSON, YAML, PROTOBUF)
PROTOBUF_WATCH = f"{PROTOBUF};stream=watch"


class Form(Enum):
    """How an object is shown: whole, as rows of a table, or its metadata alone."""

    OBJECT = "Object"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


class Accepted(NamedTuple):
    """What the client gets."""

    media: str = JSON
    form: Form = Form.OBJECT


_FORMS = {
    "Table": Form.TABLE,
    "PartialObjectMetadata": Form.METADATA,
    "PartialObjectMetadataList": Form.METADATA,
}
_PLAIN = Accepted()


def clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The media types of an Accept header with their parameters, those that the client prefers first."""
    found = []
    for clause in accept.split(","):
        kind, *parameters = (part.strip() for part in clause.split(";"))
        found.append((kind.lower() or "*/*", dict(pair for item in parameters if (pair := _pair(item)))))
    return sorted(found, key=_preference)


def _pair(item: str) -> tuple[str, str] | None:
    name, separator, value = item.partition("=")
    return (name.strip(), value.strip().strip('"')) if separator else None


def _preference(clause: tuple[str, dict[str, str]]) -> tuple[float, bool, bool]:
    kind, parameters = clause
    try:
        weight = float(parameters.get("q", 1))
    except ValueError:
        weight = 1.0
    return -weight, kind.startswith("*/"), kind.endswith("/*")


@remember(256)
def accepted(accept: str) -> Accepted:
    """What a client gets of a built-in kind: the first it asks for that is spoken here; raises a 406."""
    return _accepted(accept, custom=False)


@remember(256)
def accepted_of_custom(accept: str) -> Accepted:
    """The same for a custom kind, whose objects have no message in protobuf; their metadata has."""
    return _accepted(accept, custom=True)


def _accepted(accept: str, *, custom: bool) -> Accepted:
    if accept == JSON or not accept:
        return _PLAIN
    for offer in _offers(accept):
        if not (custom and offer == (PROTOBUF, Form.OBJECT)):
            return offer
    raise status.not_acceptable(", ".join(MEDIA_TYPES))


def _offers(accept: str) -> Iterator[Accepted]:
    """What is spoken here of what the client asks for, in its order."""
    for kind, parameters in clauses(accept):
        for media in MEDIA_TYPES:
            if kind in (media, "application/*", "*/*") and (form := _form(media, parameters)) is not None:
                yield Accepted(media, form)


def _form(media: str, parameters: dict[str, str]) -> Form | None:
    """What a clause asks for; nothing if that is not spoken. Version v1 and v1beta1 of a form read the same."""
    if parameters.get("stream", "") not in ("", "watch") or (media == YAML and parameters.get("stream")):
        return None
    if not parameters.keys() & {"as", "g", "v"}:
        return Form.OBJECT
    if parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in ("v1", "v1beta1"):
        return None
    form = _FORMS.get(parameters.get("as", ""))
    return None if form is Form.TABLE and media == PROTOBUF else form


@remember(64)
def accepts_gzip(accept_encoding: str) -> bool:
    return any(
        kind in ("gzip", "*") and parameters.get("q") not in ("0", "0.0", "0.00", "0.000")
        for kind, parameters in clauses(accept_encoding)
        if accept_encoding
    )


def check_object(accept: str) -> None:
    """Raises a 406 for a client that takes what has no columns only as a table."""
    if accept and all(each.form is Form.TABLE for each in _offers(accept)):
        raise status.not_acceptable(", ".join(MEDIA_TYPES))


def check_plain(accept: str) -> None:
    """Raises a 406 for a client that does not take what is shown in no other form than its own."""
    if accept and not any(each.form is Form.OBJECT for each in _offers(accept)):
        raise status.not_acceptable(", ".join(MEDIA_TYPES))


def check_stream(media: str) -> None:
    """Raises a 406 for what a watch cannot be written in."""
    if media == YAML:
        raise status.not_acceptable(f"{JSON};stream=watch, {PROTOBUF_WATCH}")


@remember(256)
def media(accept: str) -> str:
    """What answers and refusals are written in; JSON for a client that accepts nothing that is spoken here."""
    try:
        return _accepted(accept, custom=False).media
    except status.ApiError:
        return JSON


@remember(64)
def aggregated_discovery(accept: str) -> str:
    """The media type in which the client takes aggregated discovery, empty if it wants the plain one.

    A clause that names it counts wherever it stands: plain discovery is what is left for others.
    """
    for kind, parameters in clauses(accept) if accept else ():
        wanted = (parameters.get("g"), parameters.get("v"), parameters.get("as"))
        if wanted == ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"):
            for media in MEDIA_TYPES:
                if kind in (media, "application/*", "*/*"):
                    return media
    return ""


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
