"""The directory of CDI specs that a driver writes: one file for each claim, named after kind and claim."""

from __future__ import annotations

import os
from pathlib import Path

from dray.driver.cdi.spec import Spec, encode
from dray.driver.files import remove_file, replace_file


class CdiDirectory:
    """Made when the first file is written: it is on a file system that is empty after the machine was started."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, spec: Spec) -> None:
        """Readers see whole files only: their names end in .json, that of an unfinished one does not."""
        content = encode(spec)
        self.path.mkdir(mode=0o755, parents=True, exist_ok=True)
        replace_file(self.path / f"{name}.json", content, mode=0o644, prefix=_unfinished(name))

    def remove(self, name: str) -> bool:
        # A process that was killed while it wrote has left an unfinished one.
        for path in self.path.glob(f"{_unfinished(name)}*.tmp"):
            remove_file(path)
        return remove_file(self.path / f"{name}.json")

    def remove_prefixed(self, prefix: str) -> None:
        for name in self.names():
            if name.startswith(prefix):
                self.remove(name)

    def names(self) -> list[str]:
        """Returns the names of all specs in the directory, including those of other drivers."""
        try:
            found = os.listdir(self.path)
        except FileNotFoundError:
            return []
        return sorted(name.removesuffix(".json") for name in found if name.endswith(".json"))


def _unfinished(name: str) -> str:
    return f"spec.{name}."


def spec_name(kind: str, claim_uid: str) -> str:
    return f"{kind.replace('/', '-')}_{claim_uid}"
