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
# Decoded but never encoded: clients that send CBOR also accept JSON.
CBOR = "application/cbor"
# In the order of preference for a client that accepts any.
MEDIA_TYPES = (JSON, YAML, PROTOBUF)
PROTOBUF_WATCH = f"{PROTOBUF};stream=watch"


class Form(Enum):
    """How an object is shown: whole, as rows of a table, or only its metadata."""

    OBJECT = "Object"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


class Accepted(NamedTuple):
    """The media type and form of an answer."""

    media: str = JSON
    form: Form = Form.OBJECT


_FORMS = {
    "Table": Form.TABLE,
    "PartialObjectMetadata": Form.METADATA,
    "PartialObjectMetadataList": Form.METADATA,
}
_PLAIN = Accepted()


def clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Returns the media types of an Accept header with their parameters, in the client's order of preference."""
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
    """Returns the first accepted form that is available for a built-in kind; raises a 406."""
    return _accepted(accept, custom=False)


@remember(256)
def accepted_of_custom(accept: str) -> Accepted:
    """Returns the accepted form for a custom kind, whose objects have no protobuf message; raises a 406."""
    return _accepted(accept, custom=True)


def _accepted(accept: str, *, custom: bool) -> Accepted:
    if accept == JSON or not accept:
        return _PLAIN
    for offer in _offers(accept):
        if not (custom and offer == (PROTOBUF, Form.OBJECT)):
            return offer
    raise status.not_acceptable(", ".join(MEDIA_TYPES))


def _offers(accept: str) -> Iterator[Accepted]:
    """Yields the available answers that the client accepts, in its order."""
    for kind, parameters in clauses(accept):
        for media in MEDIA_TYPES:
            if kind in (media, "application/*", "*/*") and (form := _form(media, parameters)) is not None:
                yield Accepted(media, form)


def _form(media: str, parameters: dict[str, str]) -> Form | None:
    """Returns the form that a clause asks for; None if unknown. Versions v1 and v1beta1 of a form are equal."""
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
    """Raises a 406 if the client accepts only a table, for objects without columns."""
    if accept and all(offer.form is Form.TABLE for offer in _offers(accept)):
        raise status.not_acceptable(", ".join(MEDIA_TYPES))


def check_plain(accept: str) -> None:
    """Raises a 406 if the client does not accept the plain form, for documents with no other form."""
    if accept and not any(offer.form is Form.OBJECT for offer in _offers(accept)):
        raise status.not_acceptable(", ".join(MEDIA_TYPES))


def check_stream(media: str) -> None:
    """Raises a 406 for a media type that a watch cannot use."""
    if media == YAML:
        raise status.not_acceptable(f"{JSON};stream=watch, {PROTOBUF_WATCH}")


@remember(256)
def media(accept: str) -> str:
    """Returns the media type of answers and errors; JSON if the client accepts nothing that is available."""
    try:
        return _accepted(accept, custom=False).media
    except status.ApiError:
        return JSON


@remember(64)
def aggregated_discovery(accept: str) -> str:
    """Returns the media type of aggregated discovery; empty if the client wants plain discovery.

    A clause that names it wins at any position, because plain discovery is the fallback.
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
