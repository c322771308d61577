"""Plan of a pool: the slices to delete, update and create so that what is stored becomes what is declared.

Slices have an index, which is the start of their name: the scheduler tries them in the order of their names. The
pool's generation stays if no slice is new and at most one is changed; else all slices are written with a new one, so
that nobody takes a part of the old and a part of the new for a whole pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dray.api.names import generate_base
from dray.api.objects import Object, mapping, owners_of, spec_of
from dray.driver.slices.canonical import canonical, is_same, keep_taint_times

Accepted = Mapping[int, tuple[Object, Object]]
"""Specs by slice index: the declared one, and the stored one if the API server drops some fields."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """A pool as its slices are to be; `specs` are without generation and count."""

    driver: str
    pool: str
    owner: Object | None
    specs: Sequence[Object]
    generation: int = 0

    def name_prefix(self, index: int) -> str:
        owner = f"-{self.owner['name']}" if self.owner else ""
        return f"{index:05x}-{self.driver}{owner}-"

    def index_of(self, name: str) -> int | None:
        """Returns the slice index in a name; None if the name does not belong to this pool."""
        digits, _, _ = name.partition("-")
        try:
            index = int(digits, 16)
        except ValueError:
            return None
        return index if name.startswith(generate_base(self.name_prefix(index))) else None

    def spec(self, index: int, generation: int) -> Object:
        pool = {"name": self.pool, "generation": generation, "resourceSliceCount": len(self.specs)}
        return {"driver": self.driver, "pool": pool, **self.specs[index]}


@dataclass(slots=True)
class SlicePlan:
    generation: int
    delete: list[Object] = field(default_factory=list)
    update: list[tuple[int, Object]] = field(default_factory=list)
    create: list[tuple[int, Object]] = field(default_factory=list)


def make_plan(declared: Declaration, stored: Sequence[Object], accepted: Accepted) -> SlicePlan:
    """`stored` are all slices of the pool that belong to this driver here."""
    newest = max((_generation(slice_) for slice_ in stored), default=0)
    current: dict[int, Object] = {}
    plan = SlicePlan(newest)
    for slice_ in sorted(stored, key=lambda one: one["metadata"]["name"]):
        index = declared.index_of(slice_["metadata"]["name"])
        if index is None or index in current or not _is_kept(declared, index, slice_, newest):
            plan.delete.append(slice_)
        else:
            current[index] = slice_
    changed = [index for index, each in current.items() if not _is_equal(declared, index, each, accepted)]
    new = [index for index in range(len(declared.specs)) if index not in current]
    if declared.generation > newest:
        plan.generation = declared.generation
    elif new or len(changed) > 1:
        plan.generation = newest + 1
    if plan.generation != newest:
        changed = list(current)
    plan.update = [(index, _updated(declared, index, current[index], plan.generation)) for index in sorted(changed)]
    plan.create = [(index, _created(declared, index, plan.generation)) for index in new]
    return plan


def _is_kept(declared: Declaration, index: int, stored: Object, newest: int) -> bool:
    """The node of a slice cannot be changed: such a slice is made anew."""
    if index >= len(declared.specs) or _generation(stored) != newest:
        return False
    return (spec_of(stored).get("nodeName") or "") == (declared.specs[index].get("nodeName") or "")


def _is_equal(declared: Declaration, index: int, stored: Object, accepted: Accepted) -> bool:
    if declared.owner is not None and declared.owner not in owners_of(stored):
        return False
    wanted, found = declared.spec(index, 0), spec_of(stored)
    if is_same(wanted, found):
        return True
    return index in accepted and accepted[index] == (canonical(wanted), canonical(found))


def _updated(declared: Declaration, index: int, stored: Object, generation: int) -> Object:
    metadata = {**stored["metadata"], **_ownership(declared)}
    spec = keep_taint_times(declared.spec(index, generation), spec_of(stored))
    return {**stored, "metadata": metadata, "spec": spec}


def _created(declared: Declaration, index: int, generation: int) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"generateName": declared.name_prefix(index), **_ownership(declared)},
        "spec": declared.spec(index, generation),
    }


def _ownership(declared: Declaration) -> Object:
    return {"ownerReferences": [declared.owner]} if declared.owner else {}


def _generation(stored: Object) -> int:
    generation = mapping(spec_of(stored).get("pool")).get("generation")
    return generation if isinstance(generation, int) else 0
