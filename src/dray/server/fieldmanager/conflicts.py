"""Conflicts of an applied configuration with what others own, as Kubernetes words them."""

from __future__ import annotations

from dray.server.fieldmanager import field_set, path_elements
from dray.server.fieldmanager.field_set import FieldSet
from dray.server.fieldmanager.managers import Manager
from dray.server.status import ApiError


class ApplyConflict(ApiError):
    """409, with each field that another manager owns as a cause."""

    def __init__(self, conflicts: dict[Manager, FieldSet]) -> None:
        self.conflicts = conflicts
        found = [
            (key, path_elements.render(path)) for key in sorted(conflicts) for path in field_set.paths(conflicts[key])
        ]
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {key}", "field": field}
            for key, field in found
        ]
        super().__init__(409, "Conflict", _message(found), details={"causes": causes})

    def without(self, allowed: FieldSet) -> ApplyConflict | None:
        """What is left of it when some fields may be taken."""
        left = {key: field_set.difference(fields, allowed) for key, fields in self.conflicts.items()}
        left = {key: fields for key, fields in left.items() if fields}
        return ApplyConflict(left) if left else None


def _message(found: list[tuple[Manager, str]]) -> str:
    if len(found) == 1:
        key, field = found[0]
        return f"Apply failed with 1 conflict: conflict with {key}: {field}"
    lines: list[str] = []
    for key in dict.fromkeys(key for key, _ in found):
        lines.append(f"conflicts with {key}:")
        lines.extend(f"- {field}" for other, field in found if other == key)
    return f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
