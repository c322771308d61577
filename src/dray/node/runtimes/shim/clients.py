"""Clients of a shim: agents that are connected to its control socket."""

from __future__ import annotations

import socket

from dray.node.runtimes.shim import frames, poll

# Limit of unread output per client: a client that does not read is disconnected, and the container goes on.
_MOST_UNREAD = 4 << 20
_CHUNK = 64 * 1024


class Client:
    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.attached = False
        self.sent_input = False
        self.paused = False
        """True while the container has to take input before more is read from this client."""
        self.reader = frames.Reader()
        self._unsent = bytearray()

    @property
    def wanted(self) -> int:
        """Returns the poll events that the connection of the client is watched for."""
        return (0 if self.paused else poll.READ) | (poll.WRITE if self._unsent else 0)

    def receive(self) -> None:
        """Reads from the client. Raises OSError if the client is gone."""
        try:
            data = self.connection.recv(_CHUNK)
        except BlockingIOError:
            return
        if not data:
            raise OSError("the client left")
        self.reader.add(data)

    def send(self, data: bytes) -> None:
        """Sends data to the client. Raises OSError if the client is gone or does not read."""
        self._unsent += data
        self.flush()
        if len(self._unsent) > _MOST_UNREAD:
            raise OSError("the client does not read")

    def flush(self) -> None:
        while self._unsent:
            try:
                sent = self.connection.send(self._unsent)
            except BlockingIOError:
                return
            del self._unsent[:sent]

    def close(self, seconds: float) -> None:
        """Closes the connection; a slow client gets the rest of its data within this many seconds."""
        try:
            self.connection.settimeout(seconds)
            self.connection.sendall(self._unsent)
        except OSError:
            pass
        self.connection.close()
