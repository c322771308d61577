"""What was just written, by the bytes it was written as.

Whoever watches in the same process, or changes the object next, takes the document itself instead of reading it from
the bytes again. Nobody may change it: the server is done with an object once it is stored.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from dray.api.objects import Object

# Bytes of all of them together: some thousand pods and claims, which lie between a write and the next while many come.
_MOST: Final = 4 << 20


class Recent:
    def __init__(self) -> None:
        self._documents: OrderedDict[bytes, Object] = OrderedDict()
        self._size = 0

    def put(self, value: bytes, document: Object) -> None:
        if value not in self._documents:
            self._size += len(value)
        self._documents[value] = document
        while self._size > _MOST:
            self._size -= len(self._documents.popitem(last=False)[0])

    def get(self, value: bytes) -> Object | None:
        return self._documents.get(value)
