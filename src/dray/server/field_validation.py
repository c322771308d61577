"""fieldValidation: unknown fields are refused, dropped with a warning, or dropped silently, as the client asked."""

from __future__ import annotations

from collections.abc import Callable

from dray.api.errors import ErrorType, FieldError
from dray.api.intake import Accepted, Refusal
from dray.api.objects import Object
from dray.server import status
from dray.server.parameters import WriteOptions
from dray.server.resources import Resource

Attempt = Callable[[Object], Accepted | Refusal]


class Undecodable(status.ApiError):
    """The document is not an object of its kind."""


def admit(
    resource: Resource, document: Object, options: WriteOptions, warnings: list[str], attempt: Attempt
) -> Accepted | Refusal:
    """What intake makes of the document; a document with nothing worse than unknown members gets a second try."""
    verdict = attempt(document)
    if not isinstance(verdict, Refusal) or not verdict.errors:
        return verdict
    if not all(error.type.structural for error in verdict.errors):
        return verdict
    unknown = [error for error in verdict.errors if error.type is ErrorType.UNKNOWN_FIELD]
    if options.strict or len(unknown) < len(verdict.errors):
        return _worded(verdict, resource)
    if options.field_validation == "Warn":
        warnings.extend(f'unknown field "{error.field}"' for error in unknown)
    return attempt(resource.prune(document))


def _worded(refusal: Refusal, resource: Resource) -> Refusal:
    found = ", ".join(map(_describe, refusal.errors))
    strict = "" if any(error.type is ErrorType.WRONG_TYPE for error in refusal.errors) else "strict decoding error: "
    message = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {strict}{found}'
    return Refusal(refusal.code, refusal.reason, message, refusal.errors)


def _describe(error: FieldError) -> str:
    if error.type is ErrorType.WRONG_TYPE:
        return f"{error.field}: {error.detail}"
    return f'{"unknown" if error.type is ErrorType.UNKNOWN_FIELD else "duplicate"} field "{error.field}"'


def accepted(verdict: Accepted | Refusal, resource: Resource, document: Object) -> Accepted:
    """The verdict, or the refusal as an answer."""
    if not isinstance(verdict, Refusal):
        return verdict
    if verdict.errors and all(error.type.structural for error in verdict.errors):
        raise Undecodable(verdict.code, verdict.reason, verdict.message)
    raise status.refused(verdict, resource.kind, resource.group, name_of(document))


def name_of(document: Object) -> str:
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = metadata.get("name") or metadata.get("generateName")
    return name if isinstance(name, str) else ""
