"""Errors of a client.

`ApiError` is an answer: the server refused the request. All others mean that there was no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

# Reasons for status codes without a Status document.
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_EXCERPT = 500


class ClientError(Exception):
    """Base class of all client errors."""


class ConfigError(ClientError):
    """Raised if the kubeconfig, the service account or the address cannot be used."""


class ConnectionFailed(ClientError):
    """Raised if there was no answer; `sent` is True if the server may have seen the request, `cause` is the reason."""

    def __init__(self, message: str, *, sent: bool, cause: str = "") -> None:
        super().__init__(message)
        self.sent = sent
        self.cause = cause or message


class Garbled(ClientError):
    """Raised for an answer that no API server sends."""


class ApiError(ClientError):
    """Raised if the server refuses a request, with its Status; frequent refusals have a subclass."""

    def __new__(cls, status: int, reason: str, *_: Any, **__: Any) -> ApiError:
        if status == 409:
            cls = AlreadyExists if reason == "AlreadyExists" else Conflict
        return super().__new__(NotFound if status == 404 else cls)

    def __init__(
        self, status: int, reason: str, message: str, details: Mapping[str, Any] | None = None, retry_after: float = 0
    ) -> None:
        super().__init__(message or reason or f"status {status}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after
        """Seconds to wait before a retry; 0 if the server does not say."""

    @classmethod
    def from_status(cls, document: Mapping[str, Any], status: int = 500, retry_after: float = 0) -> ApiError:
        code = document.get("code")
        status = code if isinstance(code, int) and code else status
        details = document.get("details")
        details = details if isinstance(details, dict) else {}
        wait = details.get("retryAfterSeconds")
        return cls(
            status,
            str(document.get("reason") or _REASONS.get(status, "")),
            str(document.get("message") or ""),
            details,
            retry_after or (wait if isinstance(wait, int) else 0),
        )

    @classmethod
    def from_answer(cls, status: int, body: bytes, retry_after: float = 0) -> ApiError:
        try:
            document = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            document = None
        if isinstance(document, dict) and document.get("kind") == "Status":
            return cls.from_status(document, status, retry_after)
        text = body[:_EXCERPT].decode(errors="replace").strip()
        return cls(
            status, _REASONS.get(status, ""), text or f"the server answered with status {status}", {}, retry_after
        )

    @property
    def is_gone(self) -> bool:
        """Returns True if the resource version or continue token is too old: list again."""
        return self.status == 410

    @property
    def is_ahead(self) -> bool:
        """Returns True if the server has not reached the resource version, perhaps after a loss of data: list again."""
        return any(reason == "ResourceVersionTooLarge" for _, reason, _ in self.causes)

    @property
    def is_invalid(self) -> bool:
        return self.status == 422

    @property
    def is_forbidden(self) -> bool:
        return self.status == 403

    @property
    def is_namespace_ending(self) -> bool:
        """Returns True if the namespace is terminating, so that nothing can be created in it."""
        return self.status == 403 and any(reason == "NamespaceTerminating" for _, reason, _ in self.causes)

    @property
    def is_too_many_requests(self) -> bool:
        return self.status == 429

    @property
    def is_server_fault(self) -> bool:
        return self.status >= 500 and self.status != 501

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        """Returns (field, reason, message) of every error in the object."""
        causes = self.details.get("causes")
        named = [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []
        return [
            (str(cause.get("field", "")), str(cause.get("reason", "")), str(cause.get("message", "")))
            for cause in named
        ]


class NotFound(ApiError):
    """Raised if the object or the resource does not exist."""


class Conflict(ApiError):
    """Raised if the object has another version, or another field manager owns a field."""


class AlreadyExists(ApiError):
    """Raised if an object of that name exists."""
