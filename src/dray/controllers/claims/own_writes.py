"""Writes of the claim controller that its informers may not show yet, and consumers that were seen to go.

All of it is bounded, oldest out: to have forgotten something costs a request, and nothing else.
"""

from __future__ import annotations

import math
from typing import Final

from dray.api.caches import BoundedDict
from dray.api.objects import Object, uid_of, version_number, version_of
from dray.client.informer import Informer

_CREATED: Final = 4096
_WRITTEN: Final = 4096


class CreatedClaims:
    """Claims that were just created and may not be in the informer's cache yet."""

    def __init__(self, informer: Informer) -> None:
        self._informer = informer
        self._created: BoundedDict[tuple[str, str], tuple[str, int]] = BoundedDict(_CREATED)

    def add(self, owner: Object, entry: str, claim: Object) -> None:
        self._created[uid_of(owner), entry] = claim["metadata"]["name"], version_of(claim)

    def name(self, owner: Object, entry: str) -> str:
        """Returns the name of the created claim; "" if there is none or the cache is up to date."""
        key = uid_of(owner), entry
        created = self._created.get(key)
        if created is None:
            return ""
        if 0 < created[1] <= version_number(self._informer.resource_version):
            del self._created[key]
            return ""
        return created[0]


class Written:
    """Versions of objects written here, so that older cached versions are not acted on."""

    def __init__(self) -> None:
        self._versions: BoundedDict[str, float] = BoundedDict(_WRITTEN)

    def add(self, value: Object) -> None:
        self._versions[uid_of(value)] = version_of(value)

    def add_deleted(self, value: Object) -> None:
        self._versions[uid_of(value)] = math.inf

    def is_ahead_of(self, value: Object) -> bool:
        version = self._versions.get(uid_of(value))
        return version is not None and 0 < version_of(value) < version
