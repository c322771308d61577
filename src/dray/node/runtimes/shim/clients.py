"""Clients of a shim: agents that are connected to its control socket."""

from __future__ import annotations

import socket

from dray.node.runtimes.shim import frames

# What a client that does not read may pile up; then it is cut off, and the container goes on.
_MOST_UNREAD = 4 << 20


class Client:
    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.attached = False
        self.sent_input = False
        self.reader = frames.Reader()
        self._unsent = bytearray()

    def send(self, data: bytes) -> None:
        """Raises OSError where the client is gone or does not read."""
        self._unsent += data
        self.flush()
        if len(self._unsent) > _MOST_UNREAD:
            raise OSError("the client does not read")

    @property
    def waiting(self) -> bool:
        return bool(self._unsent)

    def flush(self) -> None:
        while self._unsent:
            try:
                sent = self.connection.send(self._unsent)
            except BlockingIOError:
                return
            del self._unsent[:sent]

    def close(self) -> None:
        # The end of the container reaches also those who read slowly, if that is quick.
        try:
            self.connection.settimeout(1)
            self.connection.sendall(self._unsent)
        except OSError:
            pass
        self.connection.close()
