"""What was just written, by the bytes it was written as.

Whoever watches in the same process, or changes the object next, takes the document itself instead of reading it from
the bytes again. Nobody may change it: the server is done with an object once it is stored.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

Object = dict[str, Any]

_MOST: Final = 64


class Recent:
    def __init__(self) -> None:
        self._documents: OrderedDict[bytes, Object] = OrderedDict()

    def put(self, value: bytes, document: Object) -> None:
        self._documents[value] = document
        if len(self._documents) > _MOST:
            self._documents.popitem(last=False)

    def get(self, value: bytes) -> Object | None:
        return self._documents.get(value)
