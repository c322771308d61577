"""Errors of patches, beyond those that all requests share.

Raised deep inside a walk over two documents, answered once by the handler of the request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from dray.server.status import ApiError, bad_request

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

STRATEGIC_MERGE = "application/strategic-merge-patch+json"


def does_not_apply(message: str) -> ApiError:
    """The patch is well-formed and cannot be carried out on this object."""
    return ApiError(422, "Invalid", message)


def invalid_outcome(detail: str) -> ApiError:
    """The patch could be carried out, and what came out is not an object of the kind."""
    message = f"Invalid value: {detail}"
    cause = {"reason": "FieldValueInvalid", "message": message, "field": "patch"}
    return ApiError(422, "Invalid", f' "" is invalid: patch: {message}', details={"causes": [cause]})


def refuses_depth(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Documents that are nested too deeply to be walked are the client's fault, not the server's."""

    @wraps(function)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise bad_request("the document is nested too deeply") from None

    return guarded
