"""Candidates for a Lease: who answers, by which strategy they are chosen, and who is the best.

A LeaseCandidate says who would hold the Lease, in `renewTime` when it was last heard of, and in `pingTime` when it was
last asked whether it is there. One that does not answer for `PATIENCE` is mute: it is not counted until it renews by
itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from dray.api.objects import Object, metadata_of, spec_of
from dray.api.semver import Semver, SemverError
from dray.client.clock import moment

OLDEST: Final = "OldestEmulationVersion"
PATIENCE: Final = timedelta(seconds=5)
KEPT: Final = timedelta(minutes=30)
"""Candidates are deleted this long after their last renewal."""
_NEVER: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_NO_VERSION: Final = Semver(0, 0, 0)


def time_of(document: Object, member: str) -> datetime:
    """Reads a time from the spec; the epoch if it is missing. Do not add to it: it may be the largest datetime."""
    text = spec_of(document).get(member)
    return moment(text) if text else _NEVER


def is_forgotten(candidate: Object, now: datetime) -> bool:
    return now - time_of(candidate, "renewTime") > KEPT


def is_asked(candidate: Object) -> bool:
    """Returns True if the candidate was pinged and has not renewed since."""
    return time_of(candidate, "pingTime") > time_of(candidate, "renewTime")


def is_mute(candidate: Object, now: datetime) -> bool:
    return is_asked(candidate) and now - time_of(candidate, "pingTime") >= PATIENCE


def is_heard(candidate: Object, now: datetime) -> bool:
    return now - time_of(candidate, "renewTime") < PATIENCE


def strategy_of(candidates: Sequence[Object]) -> str:
    """Returns the strategy that the candidates with the newest binary version ask for; "" if they disagree."""
    newest = max(_version(candidate, "binaryVersion") for candidate in candidates)
    wanted = {
        str(spec_of(candidate)["strategy"])
        for candidate in candidates
        if _version(candidate, "binaryVersion") == newest
    }
    return wanted.pop() if len(wanted) == 1 else ""


def best_of(candidates: Iterable[Object]) -> str:
    """Returns the best candidate: oldest emulation version, then oldest binary, then earliest creation."""
    return str(metadata_of(min(candidates, key=_rank))["name"])


def _rank(candidate: Mapping[str, Any]) -> tuple[Semver, Semver, str, str]:
    metadata = metadata_of(candidate)
    versions = _version(candidate, "emulationVersion"), _version(candidate, "binaryVersion")
    return *versions, metadata["creationTimestamp"], metadata["name"]


def _version(candidate: Mapping[str, Any], member: str) -> Semver:
    try:
        return Semver.parse(spec_of(candidate).get(member) or "")
    except SemverError:
        return _NO_VERSION
