"""Conditions of a terminating namespace: what is left of it and what went wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

from dray.api.objects import Object


@dataclass(slots=True)
class Report:
    """`remaining` counts objects by resource, `finalizers` objects by the finalizer that holds them."""

    undiscovered: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    remaining: dict[str, int] = field(default_factory=dict)
    finalizers: dict[str, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether the namespace may go."""
        return not (self.undiscovered or self.failures or self.remaining)

    def conditions(self) -> list[Object]:
        """Without times."""
        left = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(self.remaining.items()))
        held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(self.finalizers.items()))
        return [
            _condition(
                "NamespaceDeletionDiscoveryFailure",
                ("DiscoveryFailed", f"Discovery failed for some groups: {'; '.join(self.undiscovered)}"),
                ("ResourcesDiscovered", "All resources successfully discovered"),
                holds=bool(self.undiscovered),
            ),
            _condition(
                "NamespaceDeletionGroupVersionParsingFailure",
                ("GroupVersionParsingFailed", ""),
                ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
                holds=False,
            ),
            _condition(
                "NamespaceDeletionContentFailure",
                ("ContentDeletionFailed", f"Failed to delete all resource types: {'; '.join(self.failures)}"),
                ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
                holds=bool(self.failures),
            ),
            _condition(
                "NamespaceContentRemaining",
                ("SomeResourcesRemain", f"Some resources are remaining: {left}"),
                ("ContentRemoved", "All content successfully removed"),
                holds=bool(self.remaining),
            ),
            _condition(
                "NamespaceFinalizersRemaining",
                ("SomeFinalizersRemain", f"Some content in the namespace has finalizers remaining: {held}"),
                ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
                holds=bool(self.finalizers),
            ),
        ]


def updated(present: list[Object], report: Report, now: str) -> list[Object] | None:
    """The conditions with those of the report; None if they say the same already."""
    by_type = {condition.get("type"): condition for condition in present}
    said = False
    for condition in report.conditions():
        before = by_type.get(condition["type"])
        if before is not None and all(before.get(member) == value for member, value in condition.items()):
            continue
        said = True
        same = before is not None and before.get("status") == condition["status"]
        since = before.get("lastTransitionTime") if same and before is not None else now
        by_type[condition["type"]] = {**condition, "lastTransitionTime": since or now}
    return list(by_type.values()) if said else None


def _condition(kind: str, bad: tuple[str, str], good: tuple[str, str], *, holds: bool) -> Object:
    reason, message = bad if holds else good
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}
