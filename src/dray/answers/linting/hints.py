"""Hints on how to fix what an API server would reject: one sentence for each common mistake.

Most mistakes are fields written in the shape of another version. For other unknown fields, the hint is the most similar
field that the schema has at that place.
"""

from __future__ import annotations

import difflib
import re
from typing import Final

from dray.api.catalogue import KindVersion
from dray.api.errors import ErrorType, FieldError
from dray.api.wire_types import TYPES
from dray.yaml.text import segments

_REQUEST_MEMBERS: Final = (
    "deviceClassName|selectors|allocationMode|count|adminAccess|tolerations|capacity|derivedAttributes"
)
_CONVERT: Final = "dray convert rewrites it"

# Each row has the version (or empty), the type of error, a pattern of the field, and the hint.
_TABLE: Final = tuple(
    (version, kind, re.compile(pattern), hint)
    for version, kind, pattern, hint in (
        (
            "",
            ErrorType.UNKNOWN_FIELD,
            rf"requests\[\d+\]\.(?:{_REQUEST_MEMBERS})\Z",
            "since v1beta2 it is one level deeper, under exactly",
        ),
        (
            "v1beta1",
            ErrorType.UNKNOWN_FIELD,
            r"requests\[\d+\]\.exactly\Z",
            "v1beta1 has no exactly: set apiVersion to resource.k8s.io/v1, or move its fields one level up",
        ),
        (
            "v1beta1",
            ErrorType.UNKNOWN_FIELD,
            r"spec\.devices\[\d+\]\.\w+\Z",
            "v1beta1 keeps it under basic: set apiVersion to resource.k8s.io/v1, or move it there",
        ),
        (
            "",
            ErrorType.UNKNOWN_FIELD,
            r"spec\.devices\[\d+\]\.basic\Z",
            "since v1beta2 there is no basic: move its fields one level up",
        ),
        (
            "",
            ErrorType.UNKNOWN_FIELD,
            r"resourceClaims\[\d+\]\.source\Z",
            f"since Kubernetes 1.31 its fields are one level up; {_CONVERT}",
        ),
        (
            "",
            ErrorType.UNKNOWN_FIELD,
            r"spec\.(?:resourceClassName|parametersRef|parameters)\Z",
            f"this is v1alpha2: set apiVersion to resource.k8s.io/v1alpha2, and {_CONVERT}",
        ),
        (
            "",
            ErrorType.NOT_FOUND,
            r"resources\.claims\[\d+\]\Z",
            "add a claim of this name to resourceClaims of the pod",
        ),
        (
            "",
            ErrorType.INVALID,
            r"\.(?:match|distinct)Attribute\Z",
            "write the name with its domain, for example gpu.example.com/numa",
        ),
        (
            "",
            ErrorType.INVALID,
            r"\A[\w.\[\]]*resourceClaims\[\d+\]\Z",
            "give either resourceClaimName or resourceClaimTemplateName",
        ),
    )
)


_SOURCE: Final = re.compile(r"\n \| .*?\n \| \.*\^")

# Each row has a pattern of a message of the CEL compiler, and the hint.
_SELECTORS: Final = tuple(
    (re.compile(pattern), hint)
    for pattern, hint in (
        (r"token recognition error at: '='", "use == to compare"),
        (r"token recognition error at: '[&|]'", "use && and || to combine conditions"),
        (
            r"overload for '_(?:[<>]=?|[=!]=)_' applied to '\((?:kubernetes\.Quantity, |\w+, kubernetes\.Q)",
            'compare quantities as in memory.compareTo(quantity("40Gi")) >= 0',
        ),
        (
            r"undeclared reference to '(?:attributes|capacity|driver)'",
            "selectors read device.driver, device.attributes and device.capacity",
        ),
        (r"undefined field '", "a device has driver, attributes and capacity"),
        (r"undeclared reference to '\w+' \(in container", "put texts in quotes"),
    )
)


def without_source(message: str) -> str:
    """Returns the message of the CEL compiler without the repeated selector and the arrow below it."""
    return _SOURCE.sub("", message)


def hint_for_selector(message: str) -> str:
    """Returns a hint for a selector that does not compile; empty if there is none."""
    return next((hint for pattern, hint in _SELECTORS if pattern.search(message)), "")


def hint_for(error: FieldError, entry: KindVersion | None) -> str:
    """Returns a hint for the error; `entry` is the kind that the object claims to be, if there is one."""
    if error.type is ErrorType.WRONG_TYPE:
        return _quoting_hint(error.detail)
    if entry is None:
        return ""
    for version, kind, pattern, hint in _TABLE:
        if error.type is kind and version in ("", entry.version) and pattern.search(error.field):
            return hint
    if error.type is ErrorType.UNKNOWN_FIELD:
        return _did_you_mean(error.field, entry.schema)
    return hint_for_selector(error.detail) if error.field.endswith(".expression") else ""


def _quoting_hint(detail: str) -> str:
    """Returns a hint to quote a text that YAML reads as another type; empty if this is not the cause."""
    if detail == "expected a string, found a boolean":
        return "quote it: YAML reads y, n, yes, no, on and off as booleans"
    return "quote it" if detail.startswith("expected a string, found a number") else ""


def _did_you_mean(path: str, schema: str) -> str:
    *above, name = segments(path) or [""]
    for step in above:
        schema = schema[2:] if schema.startswith(("[]", "{}")) else TYPES.get(schema, {}).get(step, "").lstrip("!*")
    close = difflib.get_close_matches(name, TYPES.get(schema, {}), n=1, cutoff=0.7)
    return f"did you mean {close[0]}?" if close else ""
