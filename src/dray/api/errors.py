"""Field errors: what is wrong with an object, as values.

A `FieldError` is one cause of a refusal: its type, the path of the field, a detail and the offending value.
Text is made at the edge: `message` renders the form an API server puts into `details.causes[].message`.
`declarative` marks rules that Kubernetes checks on the object as the client sent it, so that the path has the
shape of the requested version; all other paths have the shape of v1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class ErrorType(Enum):
    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    NOT_FOUND = "FieldValueNotFound"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE_INVALID = "FieldValueTypeInvalid"
    INTERNAL = "InternalError"
    # Structural problems: an API server answers these with 400 and names them in the message, not as causes.
    UNKNOWN_FIELD = "UnknownField"
    DUPLICATE_FIELD = "DuplicateField"
    WRONG_TYPE = "WrongType"

    @property
    def structural(self) -> bool:
        return self in _STRUCTURAL


_STRUCTURAL = frozenset({ErrorType.UNKNOWN_FIELD, ErrorType.DUPLICATE_FIELD, ErrorType.WRONG_TYPE})

_TITLES = {
    ErrorType.REQUIRED: "Required value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.TYPE_INVALID: "Invalid value",
    ErrorType.INTERNAL: "Internal error",
}
_SHOW_VALUE = frozenset(
    {
        ErrorType.INVALID,
        ErrorType.NOT_SUPPORTED,
        ErrorType.DUPLICATE,
        ErrorType.NOT_FOUND,
        ErrorType.TOO_MANY,
        ErrorType.TYPE_INVALID,
    }
)


OMITTED = object()
"""Value of an error that does not show one."""


@dataclass(frozen=True, slots=True)
class FieldError:
    type: ErrorType
    field: str
    detail: str = ""
    value: Any = None
    declarative: bool = False

    @property
    def reason(self) -> str:
        return self.type.value

    @property
    def message(self) -> str:
        """Returns the text after the field's path."""
        if self.type.structural:
            return self.detail
        parts = [_TITLES[self.type]]
        if self.type in _SHOW_VALUE and self.value is not OMITTED:
            parts.append(render(self.value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)

    def __str__(self) -> str:
        return f"{self.field or '<nil>'}: {self.message}"


def render(value: Any) -> str:
    """Renders a value like Kubernetes: strings quoted, numbers bare, everything else as JSON."""
    # Here and below msgspec is loaded when it is used: it takes longer than most commands that never need it.
    import msgspec

    return msgspec.json.encode(value, enc_hook=str).decode()


def required(field: str, detail: str = "", *, declarative: bool = False) -> FieldError:
    return FieldError(ErrorType.REQUIRED, field, detail, None, declarative)


def invalid(field: str, value: Any, detail: str, *, declarative: bool = False) -> FieldError:
    return FieldError(ErrorType.INVALID, field, detail, value, declarative)


def not_supported(field: str, value: Any, supported: list[str], *, declarative: bool = False) -> FieldError:
    detail = "supported values: " + ", ".join(f'"{choice}"' for choice in sorted(supported))
    return FieldError(ErrorType.NOT_SUPPORTED, field, detail, value, declarative)


def duplicate(field: str, value: Any, *, declarative: bool = False) -> FieldError:
    return FieldError(ErrorType.DUPLICATE, field, "", value, declarative)


def not_found(field: str, value: Any) -> FieldError:
    return FieldError(ErrorType.NOT_FOUND, field, "", value)


def forbidden(field: str, detail: str, *, declarative: bool = False) -> FieldError:
    return FieldError(ErrorType.FORBIDDEN, field, detail, None, declarative)


def too_long(field: str, limit: int, *, declarative: bool = False) -> FieldError:
    return FieldError(ErrorType.TOO_LONG, field, f"may not be more than {limit} bytes", None, declarative)


def too_many(field: str, actual: int, limit: int, *, declarative: bool = False) -> FieldError:
    return FieldError(ErrorType.TOO_MANY, field, f"must have at most {limit} items", actual, declarative)
