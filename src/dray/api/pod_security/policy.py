"""The policy of a namespace: the labels `pod-security.kubernetes.io/...`, read as Kubernetes reads them.

Without labels a namespace is privileged in all three modes. A level that cannot be read enforces the strictest one, and
audits and warns of nothing. A namespace that enforces a level warns of it as well, unless it has a label of its own for
that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dray.api import errors
from dray.api.errors import FieldError

PREFIX: Final = "pod-security.kubernetes.io/"
PRIVILEGED: Final = "privileged"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"
LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)
"""The levels of Pod Security, in order from the loosest to the strictest."""
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]{0,8})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Standard:
    """A level at the minor version of Kubernetes that defined it; None stands for the latest."""

    level: str = PRIVILEGED
    minor: int | None = None

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor is None else f'v1.{self.minor}'}"

    @property
    def strictness(self) -> int:
        return LEVELS.index(self.level)


@dataclass(frozen=True, slots=True)
class Policy:
    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()
    problems: tuple[FieldError, ...] = ()
    """Labels that cannot be read."""

    @property
    def is_privileged(self) -> bool:
        """Whether every pod is allowed without warnings or audit entries."""
        levels = {self.enforce.level, self.audit.level, self.warn.level}
        return levels == {PRIVILEGED} and not self.problems


NO_POLICY: Final = Policy()


def read_policy(labels: Mapping[str, str]) -> Policy:
    if not any(label.startswith(PREFIX) for label in labels):
        return NO_POLICY
    problems: list[FieldError] = []
    enforce = _standard(labels, "enforce", RESTRICTED, problems)
    is_enforced = labels.get(f"{PREFIX}enforce") in LEVELS
    audit = _standard(labels, "audit", PRIVILEGED, problems)
    warn = _standard(labels, "warn", PRIVILEGED, problems)
    if f"{PREFIX}warn" not in labels and is_enforced and enforce.strictness > warn.strictness:
        pinned = f"{PREFIX}warn-version" in labels
        warn = Standard(enforce.level, warn.minor if pinned else enforce.minor)
    return Policy(enforce, audit, warn, tuple(problems))


def _standard(labels: Mapping[str, str], mode: str, otherwise: str, problems: list[FieldError]) -> Standard:
    """`otherwise` is the level in place of one that does not exist."""
    level, version = labels.get(f"{PREFIX}{mode}", PRIVILEGED), labels.get(f"{PREFIX}{mode}-version", "latest")
    if level not in LEVELS:
        detail = f"must be one of {', '.join(LEVELS)}"
        problems.append(errors.invalid(f"metadata.labels[{PREFIX}{mode}]", level, detail))
        level = otherwise
    match = _VERSION.fullmatch(version)
    if match is None and version != "latest":
        detail = 'must be "latest" or "v1.x"'
        problems.append(errors.invalid(f"metadata.labels[{PREFIX}{mode}-version]", version, detail))
    return Standard(level, int(match[1]) if match else None)
