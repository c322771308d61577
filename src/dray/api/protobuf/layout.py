"""The layout of messages: the fields of a wire type by number, those of inlined messages grouped under theirs."""

from __future__ import annotations

from dataclasses import dataclass, field

from dray.api import wire_types


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a message. `type` is without brackets; `parts` are the fields of an inlined message."""

    number: int
    name: str = ""
    repeated: bool = False
    mapped: bool = False
    type: str = ""
    # Whether a zero is told from an absent value.
    keep: bool = False
    parts: tuple[Member, ...] = field(default=())


def layout(type_name: str) -> tuple[Member, ...]:
    """The fields of a wire type in the order of their numbers."""
    return _members(
        [(wire_field, wire_field.numbers) for wire_field in wire_types.fields(type_name) if wire_field.numbers != (0,)]
    )


def _members(fields: list[tuple[wire_types.Field, tuple[int, ...]]]) -> tuple[Member, ...]:
    found = []
    for number in sorted({path[0] for _, path in fields}):
        inside = [(each, path[1:]) for each, path in fields if path[0] == number]
        if inside[0][1]:
            found.append(Member(number, parts=_members(inside)))
            continue
        each = inside[0][0]
        kind = each.type
        found.append(
            Member(
                number,
                each.name,
                repeated=kind.startswith("[]"),
                mapped=kind.startswith("{}"),
                type=kind.removeprefix("[]").removeprefix("{}"),
                keep=bool(each.marks),
            )
        )
    return tuple(found)
