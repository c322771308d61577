"""Which type may stand where another is wanted, and what type parameters must be for that.

Substitutions are kept in one table with an undo log: a candidate overload that does not fit leaves no trace.
"""

from __future__ import annotations

from dray.cel.types import DYN, Type, param


class Substitutions:
    def __init__(self) -> None:
        self._table: dict[Type, Type] = {}
        self._log: list[tuple[Type, Type | None]] = []
        self._fresh = 0

    @property
    def used(self) -> bool:
        """Whether there is any type parameter at all."""
        return self._fresh > 0

    def fresh(self) -> Type:
        """A type parameter that occurs nowhere else."""
        self._fresh += 1
        return param(f"_var{self._fresh}")

    def assignable(self, given: Type, wanted: Type) -> bool:
        return self.all_assignable((given,), (wanted,))

    def all_assignable(self, given: tuple[Type, ...], wanted: tuple[Type, ...]) -> bool:
        """Whether each given type fits; only then are the substitutions it took kept."""
        if len(given) != len(wanted):
            return False
        mark = len(self._log)
        for one, other in zip(given, wanted, strict=True):
            if not self._fits(one, other):
                while len(self._log) > mark:
                    key, previous = self._log.pop()
                    if previous is None:
                        del self._table[key]
                    else:
                        self._table[key] = previous
                return False
        return True

    def instantiate(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        """The types with every parameter replaced by a fresh one, the same for the same name."""
        renamed: dict[Type, Type] = {}
        return tuple(self._rename(type_, renamed) for type_ in types)

    def resolve(self, type_: Type, *, final: bool = False) -> Type:
        """The type with known substitutions applied; finally, what is still free is dyn."""
        if not type_.generic:
            return type_
        if type_.kind == "param":
            known = self._table.get(type_)
            if known is not None:
                return self.resolve(known, final=final)
            return DYN if final else type_
        return Type(type_.kind, *[self.resolve(p, final=final) for p in type_.params], name=type_.name)

    def _rename(self, type_: Type, renamed: dict[Type, Type]) -> Type:
        if not type_.generic:
            return type_
        if type_.kind == "param":
            if type_ not in renamed:
                renamed[type_] = self.fresh()
            return renamed[type_]
        return Type(type_.kind, *[self._rename(p, renamed) for p in type_.params], name=type_.name)

    def _fits(self, one: Type, other: Type) -> bool:
        if one is other and not one.generic:
            return True
        if other.kind == "param":
            valid, known = self._substitute(one, other)
            if valid or known:
                return valid
        if one.kind == "param":
            return self._substitute(other, one)[0]
        if one.dynamic or other.dynamic:
            return True
        if one.kind == "null" or other.kind == "null":
            return _nullable(other) if one.kind == "null" else _nullable(one)
        if one.kind == "type":
            return other.kind == "type"
        if one.kind != other.kind or one.name != other.name or len(one.params) != len(other.params):
            return False
        for first, second in zip(one.params, other.params, strict=True):
            if not self._fits(first, second):
                return False
        return True

    def _substitute(self, given: Type, parameter: Type) -> tuple[bool, bool]:
        """Lets `parameter` stand for `given`; returns whether that works and whether it already stood for something."""
        if given == parameter:
            return True, True
        known = self._table.get(parameter)
        if known is not None:
            if given == known:
                return True, True
            if not self._fits(given, known):
                return False, True
            general = given if less_specific(given, known) else known
            if not self._occurs(parameter, general):
                self._set(parameter, general)
            return True, True
        if self._occurs(parameter, given):
            return False, False
        self._set(parameter, given)
        return True, False

    def _set(self, key: Type, value: Type) -> None:
        self._log.append((key, self._table.get(key)))
        self._table[key] = value

    def _occurs(self, parameter: Type, type_: Type) -> bool:
        if type_ == parameter:
            return True
        if type_.kind == "param":
            known = self._table.get(type_)
            return known is not None and self._occurs(parameter, known)
        if type_.generic:
            for inner in type_.params:
                if self._occurs(parameter, inner):
                    return True
        return False


def less_specific(one: Type, other: Type) -> bool:
    """Whether everything of type `other` is also of type `one`."""
    if one is other or one.dynamic or one.kind == "param":
        return True
    if other.dynamic or other.kind == "param":
        return False
    if one.kind != other.kind or one.name != other.name or len(one.params) != len(other.params):
        return False
    for first, second in zip(one.params, other.params, strict=True):
        if not less_specific(first, second):
            return False
    return True


def _nullable(type_: Type) -> bool:
    return type_.kind in ("null", "duration", "timestamp", "opaque", "object")
