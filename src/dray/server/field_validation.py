"""fieldValidation: unknown fields are refused, dropped with a warning, or dropped silently, as the client asked.

The same holds for members that a body gives more than once, of which the last counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dray.api import intake
from dray.api.errors import ErrorType, FieldError
from dray.api.intake import Accepted, Refusal
from dray.api.objects import Object
from dray.server import status
from dray.server.calls import Write
from dray.server.resources import Resource

Attempt = Callable[[Object], Accepted | Refusal]


class Undecodable(status.ApiError):
    """Raised for a document that is not an object of its kind."""


def admit(write: Write, document: Object, attempt: Attempt) -> Accepted | Refusal:
    """Decodes the document; unknown and duplicate fields are refused, warned about or dropped, as requested."""
    resource, options, repeated = write.resource, write.options, write.repeated
    verdict = attempt(document)
    if not (repeated or isinstance(verdict, Refusal)):
        return verdict
    if isinstance(verdict, Refusal) and not (verdict.errors and all(error.type.structural for error in verdict.errors)):
        return verdict
    problems = verdict.errors if isinstance(verdict, Refusal) else ()
    unknown = [error for error in problems if error.type is ErrorType.UNKNOWN_FIELD]
    if len(unknown) < len(problems) or (options.strict and (problems or repeated)):
        return _worded(problems, repeated, resource, document)
    if options.field_validation == "Warn":
        said = _in_order([*repeated, *map(_describe, unknown)], resource, document)
        write.warnings.extend(text for text in said if text not in write.warnings)
    return attempt(resource.prune(document)) if problems else verdict


def _worded(problems: Sequence[FieldError], repeated: Sequence[str], resource: Resource, document: Object) -> Refusal:
    said = [*([told(repeated)] if _of_yaml(repeated) else repeated), *map(_describe, problems)]
    found = ", ".join(_in_order(said, resource, document))
    strict = "" if any(error.type is ErrorType.WRONG_TYPE for error in problems) else "strict decoding error: "
    message = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {strict}{found}'
    return intake.bad_request(message, [*map(_repeated, repeated), *problems])


def told(repeated: Sequence[str]) -> str:
    """Returns the message about duplicate fields: for YAML line by line, for JSON by path."""
    if _of_yaml(repeated):
        return "\n  ".join(("yaml: unmarshal errors:", *repeated))
    return ", ".join(repeated)


def _of_yaml(repeated: Sequence[str]) -> bool:
    return bool(repeated) and repeated[0].startswith("line ")


def _in_order(said: list[str], resource: Resource, document: Object) -> list[str]:
    """Returns the messages about unknown and duplicate fields in the order of the document.

    For custom kinds duplicate fields come first: their bodies are decoded before their schema is known.
    """
    if resource.custom_schema is not None or len(said) < 2:
        return said
    places = {path: place for place, (path, _) in enumerate(intake.members(document))}
    return sorted(said, key=lambda text: places.get(text.partition('"')[2].rstrip('"'), -1))


def _repeated(text: str) -> FieldError:
    return FieldError(ErrorType.DUPLICATE_FIELD, "", text)


def _describe(error: FieldError) -> str:
    if error.type is ErrorType.WRONG_TYPE:
        return f"{error.field}: {error.detail}"
    return f'{"unknown" if error.type is ErrorType.UNKNOWN_FIELD else "duplicate"} field "{error.field}"'


def accepted(verdict: Accepted | Refusal, resource: Resource, document: Object) -> Accepted:
    """Returns an accepted verdict; raises a refusal as an error."""
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
