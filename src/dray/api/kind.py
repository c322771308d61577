"""A kind of the API and its versions: the types of which the catalogue is made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

RELEASE = (1, 37)
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """Releases, as (major, minor), in which a version is deprecated and removed, and its replacement."""

    deprecated: tuple[int, int]
    # None where it stays for good.
    removed: tuple[int, int] | None = None
    # What is used in its place.
    replacement: str = ""


@dataclass(frozen=True, slots=True)
class Version:
    name: str
    schema: str
    lifecycle: Lifecycle | None = None
    # Whether an update may leave out metadata.resourceVersion.
    unconditional_update: bool = True


@dataclass(frozen=True, eq=False)
class Kind:
    group: str
    name: str
    plural: str
    versions: tuple[Version, ...]
    storage: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    # Whether the server counts changes of the spec in metadata.generation.
    generation: bool = False
    verbs: tuple[str, ...] = VERBS
    # What a client is told who writes an object that is stored and that nothing here acts upon: one sentence.
    stored_only: str = ""

    @property
    def singular(self) -> str:
        return self.name.lower()

    @property
    def list_name(self) -> str:
        return self.name + "List"

    @property
    def qualified(self) -> str:
        """The name with its group: `resourceclaims.resource.k8s.io`, or `pods` for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def by_version(self) -> dict[str, KindVersion]:
        return {version.name: KindVersion(self, version) for version in self.versions}

    @cached_property
    def hub(self) -> KindVersion:
        """The version that objects have internally: the newest stable one."""
        stable = [name for name in self.by_version if name[1:].isdecimal()]
        return self.by_version[max(stable, key=lambda name: int(name[1:]), default=self.storage)]

    def version(self, name: str) -> KindVersion | None:
        return self.by_version.get(name)


class KindVersion:
    """A kind in one version."""

    def __init__(self, entry: Kind, served: Version) -> None:
        self.entry, self.served = entry, served
        self.group, self.kind, self.plural, self.namespaced = entry.group, entry.name, entry.plural, entry.namespaced
        self.version, self.schema = served.name, served.schema
        self.api_version = f"{entry.group}/{served.name}" if entry.group else served.name

    @property
    def deprecated(self) -> str | None:
        """The warning that an API server sends with answers in this version; None if it is not deprecated."""
        lifecycle = self.served.lifecycle
        if lifecycle is None or lifecycle.deprecated > RELEASE:
            return None
        text = f"{self.api_version} {self.kind} is deprecated in {_release(lifecycle.deprecated)}"
        if lifecycle.removed is not None:
            text += f", unavailable in {_release(lifecycle.removed)}"
        return f"{text}; use {lifecycle.replacement}" if lifecycle.replacement else text


def _release(version: tuple[int, int]) -> str:
    return "v{}.{}+".format(*version)
