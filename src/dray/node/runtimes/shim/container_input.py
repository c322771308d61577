"""Input on its way to a container: kept until the container reads it, up to a size."""

from __future__ import annotations

import os

# A client must wait while more input than this is unread.
_MOST_BYTES = 1 << 20
_END_OF_TRANSMISSION = b"\x04"


class ContainerInput:
    """Writes to a descriptor that does not block; -1 for a container without input."""

    def __init__(self, descriptor: int = -1, *, tty: bool = False) -> None:
        self.descriptor = descriptor
        self._tty = tty
        self._data = bytearray()
        self._ended = False

    @property
    def is_open(self) -> bool:
        return self.descriptor >= 0

    @property
    def is_full(self) -> bool:
        return len(self._data) >= _MOST_BYTES

    @property
    def is_waiting(self) -> bool:
        """Returns True if there is input that the container has not read yet."""
        return bool(self._data)

    def add(self, data: bytes) -> None:
        if self.is_open:
            self._data += data
            self.write()

    def end(self) -> None:
        """Ends the input after everything that was written before."""
        if self._tty:
            # A terminal has no end of file; a control character stands for it.
            self._data += _END_OF_TRANSMISSION
        self._ended = True
        self.write()

    def write(self) -> None:
        """Writes as much as the container takes now."""
        while self._data and self.is_open:
            try:
                written = os.write(self.descriptor, self._data)
            except BlockingIOError:
                return
            except OSError:
                # The container has closed its input.
                self._data.clear()
                break
            del self._data[:written]
        if self._ended and self.is_open and not self._tty:
            os.close(self.descriptor)
            self.descriptor = -1
