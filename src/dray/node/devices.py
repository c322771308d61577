"""References to claims, and the devices that a driver prepared for them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """All that a driver is told of a claim."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """A device as the driver answered for it.

    `requests` are base names: of a `firstAvailable` request that of the request, not of the alternative. Without any,
    the device serves every request of the claim.
    """

    pool: str
    device: str
    requests: tuple[str, ...] = ()
    cdi_ids: tuple[str, ...] = ()
    share_id: str | None = None

    def serves(self, request: str) -> bool:
        """Whether a container that names the request gets it; one that names none gets every device."""
        return not request or not self.requests or request in self.requests
