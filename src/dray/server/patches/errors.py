"""Errors of patches, beyond those that all requests share.

Raised deep inside a walk over two documents, answered once by the handler of the request.
"""

from __future__ import annotations

from dray.server.status import ApiError

STRATEGIC_MERGE = "application/strategic-merge-patch+json"


def does_not_apply(message: str) -> ApiError:
    """The patch is well-formed and cannot be carried out on this object."""
    return ApiError(422, "Invalid", message)


def invalid_outcome(detail: str) -> ApiError:
    """The patch could be carried out, and what came out is not an object of the kind."""
    message = f"Invalid value: {detail}"
    cause = {"reason": "FieldValueInvalid", "message": message, "field": "patch"}
    return ApiError(422, "Invalid", f' "" is invalid: patch: {message}', details={"causes": [cause]})
