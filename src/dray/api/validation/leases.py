"""Leases: who holds something, for how long, and how often that changed."""

from dray.api import errors
from dray.api.objects import Object
from dray.api.validation.fields import Errors


def validate(lease: Object) -> Errors:
    spec = lease["spec"]
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield errors.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield errors.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
    strategy = spec.get("strategy")
    if strategy is not None and not strategy:
        yield errors.invalid("spec.strategy", strategy, "must not be empty")
    if spec.get("preferredHolder") and not strategy:
        yield errors.forbidden("spec.preferredHolder", "must be used together with strategy")
