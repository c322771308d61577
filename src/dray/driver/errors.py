"""Errors of the driver SDK."""

from __future__ import annotations


class DriverError(Exception):
    """Anything the SDK raises; the text names the place and, where there is one, the fix."""


class ClaimFailed(DriverError):
    """One claim cannot be prepared or unprepared. The text reaches the pod's events; other claims are not affected."""


class InvalidConfig(ClaimFailed):
    """Opaque parameters of a claim or class are not what the driver takes."""


class InvalidPools(DriverError):
    """The declared pools contradict themselves; nothing is published until they are declared otherwise."""


class InvalidSpec(DriverError):
    """A CDI spec, or a name in it, is not valid."""


class CheckpointCorrupt(ClaimFailed):
    """The record of a claim on disk cannot be read."""


class DroppedFields(DriverError):
    """The API server stored a slice without some of its fields: their feature gates are off there."""

    def __init__(self, pool: str, index: int, fields: tuple[str, ...]) -> None:
        named = ", ".join(fields)
        super().__init__(f"pool {pool}, slice {index}: the API server does not keep {named}: the feature is off there")
        self.pool = pool
        self.index = index
        self.fields = fields
