"""Ownership of fields: what an update takes, and what an applied configuration takes and gives up.

An update takes over the fields that it changed from their owners. An applied configuration takes the fields it names;
where another manager owns a field with another value, that is a conflict, unless it is forced. Fields it named the last
time and names no more are removed, unless another applied configuration names them.
"""

from __future__ import annotations

import msgspec

from dray.api.objects import Object
from dray.server.fieldmanager.field_set import FieldSet, difference, intersection, overlap, union
from dray.server.fieldmanager.field_types import FieldType
from dray.server.fieldmanager.managers import APPLY, ApplyConflict, Manager, Managers, Owned
from dray.server.fieldmanager.tracked_kinds import TrackedKind, Unconvertible
from dray.server.fieldmanager.walks import Comparison, compare, merged, named_fields, owned, removed


class Updater(msgspec.Struct, frozen=True):
    kind: TrackedKind
    ignored: FieldSet

    @property
    def version(self) -> str:
        return self.kind.api_version

    def type_in(self, api_version: str) -> FieldType:
        found = self.kind.field_type(api_version)
        assert found is not None
        return found

    def taken(self, live: Object, new: Object, managers: Managers, who: Manager) -> tuple[FieldSet, Managers]:
        """Returns the fields that an update takes, and the other managers without fields that it took or removed."""
        rest, compared = self._dispossess(live, new, managers, who)
        return compared.changed, rest

    def apply(
        self, live: Object, applied: Object, managers: Managers, who: Manager, *, force: bool
    ) -> tuple[Object, Managers]:
        kind = self.type_in(self.version)
        last = managers.get(who)
        named = Owned(owned(kind, applied), self.version, last.time if last is not None else None)
        new = merged(kind, live, applied)
        if last is not None and last.fields:
            # Fields without an owner count as named here: they keep the metadata that the server wrote.
            new = self._prune(new, {**managers, who: named}, last)
        managers = {**managers, who: named.with_fields(difference(named.fields, self.ignored, deep=True))}
        managers, _ = self._dispossess(live, new, managers, who, force=force)
        return new, managers

    def _dispossess(
        self, live: Object, new: Object, managers: Managers, who: Manager | None, *, force: bool = True
    ) -> tuple[Managers, Comparison]:
        current, applies = self.version, who is not None and who.operation == APPLY
        compared = compare(self.type_in(current), live, new, self.ignored)
        others: dict[str, Comparison] = {}
        rest: Managers = {}
        conflicts: dict[Manager, FieldSet] = {}
        for key, entry in managers.items():
            version, changes = entry.api_version, compared
            if version != current:
                if self.kind.field_type(version) is None:
                    continue
                if version not in others:
                    others[version] = self._compare_in(version, live, new, unknown_is_nothing=not applies)
                changes = others[version]
            if key != who or key.operation != APPLY:
                if key != who and overlap(entry.fields, changed := changes.changed):
                    conflicts[key] = intersection(entry.fields, changed)
                    entry = entry.with_fields(difference(entry.fields, conflicts[key]))
                if changes.removed and overlap(entry.fields, changes.removed):
                    entry = entry.with_fields(difference(entry.fields, changes.removed))
            if entry.fields:
                rest[key] = entry
        if conflicts and not force:
            raise ApplyConflict(conflicts)
        return rest, compared

    def _compare_in(self, api_version: str, live: Object, new: Object, *, unknown_is_nothing: bool) -> Comparison:
        """Compares objects in a manager's version; with `unknown_is_nothing`, unconvertible ones count as unchanged."""
        try:
            before, after = self.kind.convert(live, api_version), self.kind.convert(new, api_version)
        except Unconvertible:
            if not unknown_is_nothing:
                raise
            return Comparison()
        return compare(self.type_in(api_version), before, after, self.ignored)

    def _prune(self, new: Object, managers: Managers, last: Owned) -> Object:
        """Removes fields that the manager applied the last time and that no manager names now."""
        kind = self.kind.field_type(last.api_version)
        if kind is None:
            return new
        whole = self._in(new, last.api_version)
        before = named_fields(kind, last.fields)
        pruned = removed(kind, whole, before) or {}
        pruned = self._add_back_owned(whole, pruned, last.api_version, managers)
        left, all_fields = (named_fields(kind, owned(kind, document)) for document in (pruned, whole))
        pruned = removed(kind, whole, intersection(difference(all_fields, left), before)) or {}
        return self._in(pruned, self.version)

    def _add_back_owned(self, whole: Object, pruned: Object, api_version: str, managers: Managers) -> Object:
        claims: dict[str, list[FieldSet]] = {}
        for key, entry in managers.items():
            if key.operation == APPLY and self.kind.field_type(entry.api_version) is not None:
                claims.setdefault(entry.api_version, []).append(entry.fields)
        for version in sorted(claims, key=lambda version: version != api_version):
            kind = self.type_in(version)
            there, left = self._in(whole, version), self._in(pruned, version)
            kept = union(named_fields(kind, owned(kind, left)), named_fields(kind, union(*claims[version])))
            back = removed(kind, there, difference(named_fields(kind, owned(kind, there)), kept)) or {}
            pruned = self._in(back, api_version)
        return pruned

    def _in(self, document: Object, api_version: str) -> Object:
        if document.get("apiVersion", self.version) == api_version:
            return document
        return self.kind.convert(document, api_version)
