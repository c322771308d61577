"""MIG profiles: the kinds of partitions a GPU can be cut into, and where on its memory slices each may lie."""

from __future__ import annotations

from typing import Final

import msgspec

_STARTS: Final[dict[int, tuple[tuple[int, ...], int]]] = {
    19: ((0, 1, 2, 3, 4, 5, 6), 1),
    20: ((0, 1, 2, 3, 4, 5, 6), 1),
    15: ((0, 2, 4, 6), 2),
    14: ((0, 2, 4), 2),
    9: ((0, 4), 4),
    5: ((0,), 4),
    0: ((0,), 8),
}
"""Placements by profile id on GPUs with eight memory slices: first slices, and the number of slices."""


class MigProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """`id` is that of the GPU instance profile; a GPU without eight memory slices has `placements` and `size`."""

    profile: str
    id: int
    memory: str
    multiprocessors: int
    copy_engines: int = 0
    decoders: int = 0
    encoders: int = 0
    jpeg_engines: int = 0
    ofa_engines: int = 0
    placements: tuple[int, ...] = ()
    size: int = 0

    def starts(self) -> tuple[int, ...]:
        return self.placements or _STARTS.get(self.id, ((), 0))[0]

    def slices(self) -> int:
        """How many memory slices it takes."""
        return self.size or _STARTS.get(self.id, ((), 0))[1]

    def amounts(self) -> dict[str, str | int]:
        """By name of the capacity."""
        return {
            "memory": self.memory,
            "multiprocessors": self.multiprocessors,
            "copyEngines": self.copy_engines,
            "decoders": self.decoders,
            "encoders": self.encoders,
            "jpegEngines": self.jpeg_engines,
            "ofaEngines": self.ofa_engines,
        }

    def device_name(self, gpu: str, start: int) -> str:
        """Returns a name such as gpu-0-mig-3g40gb-9-4: device names cannot contain dots."""
        shape = self.profile.lower().replace(".", "").replace("+", "-")
        return f"{gpu}-mig-{shape}-{self.id}-{start}"
