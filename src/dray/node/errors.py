"""Failures on a node: each says which pod, claim, driver or file it is about."""

from __future__ import annotations

from typing import Final

_MOST_SHOWN: Final = 100


class NodeError(Exception):
    """Base class of all errors on a node."""


class RegistrationError(NodeError):
    """Raised to refuse the registration of a plugin."""


class DriverNotRegistered(NodeError):
    """Raised if no instance of the driver is registered on this node."""

    def __init__(self, driver: str) -> None:
        super().__init__(f"DRA driver {driver} is not registered")
        self.driver = driver


class DriverCallFailed(NodeError):
    """Raised if a call to a driver failed; has the gRPC status and details."""

    def __init__(self, driver: str, method: str, code: str, details: str) -> None:
        super().__init__(f"{method} of DRA driver {driver} failed: {code}: {details}")
        self.driver = driver
        self.code = code


class PrepareError(NodeError):
    """Raised if claims of a pod cannot be prepared now; the caller retries."""


class UnprepareError(NodeError):
    """Raised if claims of a pod cannot be unprepared now; the pod stays until they are."""


class CheckpointError(NodeError):
    """Raised if the checkpoint cannot be read or written."""


class SetupError(NodeError):
    """Raised if this node cannot set up what a pod's spec asks for; `reason` is the kubelet's word for it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def described(error: BaseException) -> str:
    """Returns the text of a failure for events and statuses. An unexpected failure includes its type."""
    known = isinstance(error, (NodeError, OSError)) or hasattr(error, "reason")
    text = str(error) if known else f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and error.strerror:
        place = f": {shortened(str(error.filename))}" if error.filename else ""
        text = f"{error.strerror}{place}"
    return text.replace("\0", "\\0")


def shortened(path: str) -> str:
    """Shortens a path for a message, because a pod may have a path of thousands of directories."""
    return path if len(path) <= _MOST_SHOWN else f"{path[:_MOST_SHOWN]}…"
