"""Prepared devices: what a driver answered for a claim, as caches, checkpoints and containers use it."""

from __future__ import annotations

from dataclasses import dataclass


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
