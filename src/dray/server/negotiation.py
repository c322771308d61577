"""Content negotiation: the Accept and Content-Type headers."""

from __future__ import annotations

from enum import Enum

from dray.api.caches import remember
from dray.server import status

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_WILDCARDS = ("*/*", "application/*", "")


class Form(Enum):
    """How an object is shown: whole, as rows of a table, or its metadata alone."""

    OBJECT = "Object"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


_FORMS = {
    "": Form.OBJECT,
    "Table": Form.TABLE,
    "PartialObjectMetadata": Form.METADATA,
    "PartialObjectMetadataList": Form.METADATA,
}


def clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The media types of an Accept header with their parameters, in the order they are given."""
    found = []
    for clause in accept.split(","):
        kind, *parameters = (part.strip() for part in clause.split(";"))
        found.append((kind.lower(), dict(pair for item in parameters if (pair := _pair(item)))))
    return found


def _pair(item: str) -> tuple[str, str] | None:
    name, separator, value = item.partition("=")
    return (name.strip(), value.strip().strip('"')) if separator else None


@remember(256)
def form(accept: str) -> Form:
    """The first form the client asks for that this server speaks; version v1 and v1beta1 of it read the same."""
    if accept == JSON or not accept:
        return Form.OBJECT
    for kind, parameters in clauses(accept):
        if kind not in (JSON, YAML) and kind not in _WILDCARDS:
            continue
        wanted = _FORMS.get(parameters.get("as", ""))
        if wanted is None or (wanted is not Form.OBJECT and parameters.get("g") != "meta.k8s.io"):
            continue
        if wanted is not Form.OBJECT and parameters.get("v") not in ("v1", "v1beta1"):
            continue
        return wanted
    raise status.not_acceptable(f"{JSON}, {YAML}")


@remember(256)
def wants_yaml(accept: str) -> bool:
    for kind, _ in clauses(accept):
        if kind == JSON or kind in _WILDCARDS:
            return False
        if kind == YAML:
            return True
    return False


@remember(64)
def wants_aggregated_discovery(accept: str) -> str:
    """The version of the aggregated form that the client prefers, empty if it wants the plain one."""
    for kind, parameters in clauses(accept):
        if kind != JSON:
            continue
        if parameters.get("g") == "apidiscovery.k8s.io" and parameters.get("as") == "APIGroupDiscoveryList":
            if parameters.get("v") in ("v2", "v2beta1"):
                return parameters["v"]
        elif not parameters.get("as"):
            return ""
    return ""


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
