"""Claims made from templates, reserved for pods that came without the scheduler, and released when their users end."""

from dray.controllers.claims.controller import ClaimController

__all__ = ["ClaimController"]
