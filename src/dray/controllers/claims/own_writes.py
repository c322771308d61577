"""What happened lately, where the informers may not show it yet, or never will.

All of it is bounded, oldest out: to have forgotten something costs a request, and nothing else.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final

from dray.api.objects import Object, uid_of
from dray.client.informer import Informer

_CREATED: Final = 4096
_GONE: Final = 16384
_WRITTEN: Final = 4096


class CreatedClaims:
    """Claims that were just created, until the informer of claims has come as far."""

    def __init__(self, informer: Informer) -> None:
        self._informer = informer
        self._created: OrderedDict[tuple[str, str], tuple[str, int]] = OrderedDict()

    def add(self, owner: Object, entry: str, claim: Object) -> None:
        metadata = claim["metadata"]
        self._created[uid_of(owner), entry] = metadata["name"], _version(metadata.get("resourceVersion"))
        while len(self._created) > _CREATED:
            self._created.popitem(last=False)

    def name(self, owner: Object, entry: str) -> str:
        """Empty if there is none, or if the informer knows better by now."""
        key = uid_of(owner), entry
        created = self._created.get(key)
        if created is None:
            return ""
        if 0 < created[1] <= _version(self._informer.resource_version):
            del self._created[key]
            return ""
        return created[0]


class Gone:
    """The uids of pods and groups that were seen to be deleted: nobody needs to ask the server about them."""

    def __init__(self) -> None:
        self._uids: OrderedDict[str, None] = OrderedDict()

    def add(self, uid: str) -> None:
        self._uids[uid] = None
        while len(self._uids) > _GONE:
            self._uids.popitem(last=False)

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids


class Written:
    """The versions of objects that were written here: a cache that shows an older one is not worth acting on."""

    def __init__(self) -> None:
        self._versions: OrderedDict[str, float] = OrderedDict()

    def add(self, value: Object) -> None:
        self._add(value, _version(value["metadata"].get("resourceVersion")))

    def add_deleted(self, value: Object) -> None:
        self._add(value, math.inf)

    def is_ahead_of(self, value: Object) -> bool:
        version = self._versions.get(uid_of(value))
        return version is not None and 0 < _version(value["metadata"].get("resourceVersion")) < version

    def _add(self, value: Object, version: float) -> None:
        self._versions[uid_of(value)] = version
        while len(self._versions) > _WRITTEN:
            self._versions.popitem(last=False)


def _version(text: object) -> int:
    """0 if it is not a number, and so cannot be compared."""
    return int(text) if isinstance(text, str) and text.isdecimal() else 0
