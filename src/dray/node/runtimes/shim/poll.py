"""Poll: calls a handler whenever a descriptor can be read or written, or its other end is gone.

A descriptor that is watched for nothing (mask 0) still reports that its other end is gone, which the selectors of the
standard library do not offer.
"""

from __future__ import annotations

import contextlib
import select
from collections.abc import Callable

READ, WRITE = select.EPOLLIN, select.EPOLLOUT
GONE = select.EPOLLHUP | select.EPOLLERR

Handler = Callable[[int], object]
"""A handler is called with the mask of events."""


class Poll:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}

    def watch(self, descriptor: int, mask: int, handler: Handler) -> None:
        """Watches a descriptor for events; replaces an earlier watch."""
        if descriptor in self._handlers:
            self._epoll.modify(descriptor, mask)
        else:
            self._epoll.register(descriptor, mask)
        self._handlers[descriptor] = handler

    def forget(self, descriptor: int) -> None:
        if self._handlers.pop(descriptor, None) is not None:
            # A closed descriptor is not watched any more.
            with contextlib.suppress(OSError):
                self._epoll.unregister(descriptor)

    def watches(self, descriptor: int) -> bool:
        return descriptor in self._handlers

    def wait(self) -> None:
        """Waits for events and calls their handlers."""
        for descriptor, mask in self._epoll.poll():
            # An earlier handler of this round may have closed the descriptor.
            if (handler := self._handlers.get(descriptor)) is not None:
                handler(mask)
