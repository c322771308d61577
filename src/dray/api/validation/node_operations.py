"""Node operations a driver does without: of slices and of allocation results."""

from __future__ import annotations

from dray.api import errors
from dray.api.validation import fields
from dray.api.validation.fields import Errors

OPERATIONS = ["*", "NodePrepareResources", "NodeUnprepareResources"]


def validate(operations: list[str], path: str) -> Errors:
    def check(operation: str, at: str) -> Errors:
        if operation not in OPERATIONS:
            yield errors.not_supported(at, operation, OPERATIONS, declarative=True)

    yield from fields.limited(operations, len(operations), path, check, key=fields.itself, declarative=True)
    if "NodePrepareResources" in operations and not {"NodeUnprepareResources", "*"} & set(operations):
        yield errors.invalid(
            path, operations, "must contain NodeUnprepareResources if it contains NodePrepareResources"
        )
