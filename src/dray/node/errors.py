"""Failures on a node: each says which pod, claim, driver or file it is about."""

from __future__ import annotations

from typing import Final

_MOST_SHOWN: Final = 100


class NodeError(Exception):
    """Base of them all."""


class RegistrationError(NodeError):
    """A plugin that cannot be registered as it presents itself."""


class DriverNotRegistered(NodeError):
    """No instance of the driver is registered on this node."""

    def __init__(self, driver: str) -> None:
        super().__init__(f"DRA driver {driver} is not registered")
        self.driver = driver


class DriverCallFailed(NodeError):
    """A call to a driver that ended without an answer: gRPC status and details."""

    def __init__(self, driver: str, method: str, code: str, details: str) -> None:
        super().__init__(f"{method} of DRA driver {driver} failed: {code}: {details}")
        self.driver = driver
        self.code = code


class PrepareError(NodeError):
    """The claims of a pod that cannot be prepared now; the pod is tried again."""


class UnprepareError(NodeError):
    """The claims of a pod that cannot be unprepared now; the pod stays until they are."""


class CheckpointError(NodeError):
    """A checkpoint that cannot be read or written."""


class SetupError(NodeError):
    """What a pod's spec asks for and this node cannot make now: `reason` is a kubelet's word for it."""

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
    """Returns a path for a message: a pod may name one of thousands of directories."""
    return path if len(path) <= _MOST_SHOWN else f"{path[:_MOST_SHOWN]}…"
