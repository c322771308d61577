"""Leases: who holds something, for how long, and how often that changed; and who would like to hold one."""

from typing import Final

from dray.api import errors, names
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.semver import Semver, is_semver
from dray.api.validation import fields
from dray.api.validation.fields import Errors

_OLDEST: Final = "OldestEmulationVersion"


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


def validate_candidate(candidate: Object, rules: Rules) -> Errors:
    spec = candidate["spec"]
    if not spec["leaseName"]:
        yield errors.required("spec.leaseName")
    emulated, binary = spec.get("emulationVersion") or "", spec["binaryVersion"]
    for member, version in (("emulationVersion", emulated), ("binaryVersion", binary)):
        if version and not is_semver(version):
            yield errors.invalid(f"spec.{member}", version, "must be a valid semantic version")
    if not binary:
        yield errors.required("spec.binaryVersion")
    if is_semver(emulated) and is_semver(binary) and Semver.parse(binary) < Semver.parse(emulated):
        yield errors.invalid("spec.binaryVersion", binary, "must be greater than or equal to `emulationVersion`")
    strategy = spec.get("strategy") or ""
    if not strategy:
        yield errors.required("spec.strategy")
    elif strategy == _OLDEST and not emulated:
        detail = f"must be specified when `strategy` is '{_OLDEST}'"
        yield errors.required("spec.emulationVersion", detail)
    elif "/" not in strategy:
        yield from fields.enum(strategy, [_OLDEST], "spec.strategy")
    elif not names.is_label_key(strategy):
        yield errors.invalid("spec.strategy", strategy, names.LABEL_KEY_DETAIL)


def validate_candidate_update(candidate: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_candidate(candidate, rules)
    yield from fields.immutable(candidate["spec"]["leaseName"], old["spec"]["leaseName"], "spec.leaseName")
