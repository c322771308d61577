"""Refusals, as Kubernetes words them.

An `ApiError` is raised anywhere below the handler of a request and answered as a Status document. The constructors are
the whole vocabulary: one for each reason that a client can tell apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dray.api.errors import FieldError
from dray.api.intake import Refusal
from dray.api.objects import Object
from dray.store.interface import NoSpace, NotDurable

Cause = dict[str, str]
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class ApiError(Exception):
    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Object | None = None,
        metadata: Object | None = None,
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.metadata = metadata or {}
        self.retry_after = retry_after

    @property
    def document(self) -> Object:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            **({"details": self.details} if self.details else {}),
            "code": self.code,
        }

    def encode(self) -> bytes:
        return msgspec.json.encode(self.document)


def success(details: Object | None = None, *, code: int = 0) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        **({"details": details} if details else {}),
        **({"code": code} if code else {}),
    }


def _details(group: str, resource: str, name: str, causes: Sequence[Cause] = ()) -> Object:
    return {
        **({"name": name} if name else {}),
        **({"group": group} if group else {}),
        "kind": resource,
        **({"causes": list(causes)} if causes else {}),
    }


def qualified(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource


def not_found(group: str, resource: str, name: str) -> ApiError:
    message = f'{qualified(group, resource)} "{name}" not found'
    return ApiError(404, "NotFound", message, details=_details(group, resource, name))


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(group: str, resource: str, name: str) -> ApiError:
    message = f'{qualified(group, resource)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, details=_details(group, resource, name))


def conflict(group: str, resource: str, name: str, why: str) -> ApiError:
    message = f'Operation cannot be fulfilled on {qualified(group, resource)} "{name}": {why}'
    return ApiError(409, "Conflict", message, details=_details(group, resource, name))


def forbidden(group: str, resource: str, name: str, why: str, causes: Sequence[Cause] = ()) -> ApiError:
    subject = f'{qualified(group, resource)} "{name}"' if name else qualified(group, resource)
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {why}", details=_details(group, resource, name, causes))


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def method_not_allowed(method: str) -> ApiError:
    message = f"the server does not allow this method on the requested resource: {method}"
    return ApiError(405, "MethodNotAllowed", message)


def not_acceptable(supported: str) -> ApiError:
    message = f"only the following media types are accepted: {supported}"
    return ApiError(406, "NotAcceptable", message)


def unsupported_media_type(supported: Iterable[str]) -> ApiError:
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(supported)}"
    return ApiError(415, "UnsupportedMediaType", message)


def too_large(limit: int) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def object_too_large(size: int, limit: int) -> ApiError:
    """Returns a 413 for an object that would be too large when stored, with defaults."""
    message = f"Request entity too large: limit is {limit}: the object would take {size} bytes"
    return ApiError(413, "RequestEntityTooLarge", message)


def not_stored(error: NotDurable) -> ApiError:
    """Returns an error for a write that the store could not keep."""
    if isinstance(error, NoSpace):
        return ApiError(507, "InsufficientStorage", f"{error}; deleting objects is still possible", retry_after=1)
    return ApiError(500, "InternalError", f"Internal error occurred: {error}")


def expired(message: str, *, metadata: Object | None = None) -> ApiError:
    return ApiError(410, "Expired", message, metadata=metadata)


def too_large_version(asked: int, newest: int) -> ApiError:
    """Returns an error for a revision that this server has not reached."""
    message = f"Timeout: Too large resource version: {asked}, current: {newest}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details: Object = {"causes": [cause], "retryAfterSeconds": 1}
    return ApiError(504, "Timeout", message, details=details, retry_after=1)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def too_many_requests(message: str, *, retry_after: int = 1, causes: Sequence[Cause] = ()) -> ApiError:
    """Returns a 429; with `retry_after` 0 it names no time, and Kubernetes clients do not retry by themselves."""
    details: Object = {"retryAfterSeconds": retry_after} if retry_after else {}
    if causes:
        details["causes"] = list(causes)
    return ApiError(429, "TooManyRequests", message, details=details, retry_after=retry_after)


def not_implemented(message: str) -> ApiError:
    return ApiError(501, "NotImplemented", message)


def invalid(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    text = str(errors[0]) if len(errors) == 1 else f"[{', '.join(map(str, errors))}]"
    return _invalid(kind, group, name, f'{qualified(group, kind)} "{name}" is invalid: {text}', errors)


def _invalid(kind: str, group: str, name: str, message: str, errors: Iterable[FieldError]) -> ApiError:
    causes = [{"reason": error.reason, "message": error.message, "field": error.field} for error in errors]
    return ApiError(422, "Invalid", message, details=_details(group, kind, name, causes))


def refused(refusal: Refusal, kind: str, group: str, name: str) -> ApiError:
    """Returns a refusal by intake as an error."""
    if refusal.code == 422:
        return _invalid(kind, group, name, refusal.message, refusal.causes)
    return ApiError(refusal.code, refusal.reason, refusal.message)


def does_not_apply(message: str) -> ApiError:
    """Returns a 422 for a valid patch that cannot be applied to the object."""
    return ApiError(422, "Invalid", message)


def invalid_outcome(detail: str) -> ApiError:
    """Returns a 422 for a patch whose result is not an object of the kind."""
    message = f"Invalid value: {detail}"
    cause = {"reason": "FieldValueInvalid", "message": message, "field": "patch"}
    return ApiError(422, "Invalid", f' "" is invalid: patch: {message}', details={"causes": [cause]})
