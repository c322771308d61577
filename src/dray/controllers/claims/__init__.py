"""The ResourceClaim controller: makes claims from templates, reserves them for bound pods, and releases them."""

from dray.controllers.claims.controller import ClaimController

__all__ = ["ClaimController"]
