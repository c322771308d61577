"""Control socket of a shim: signals, and the streams of clients that attach.

Signals are always obeyed. A client that sends more input than the container takes is not read until the container
takes more; other clients are. The number of attached clients is limited, and those that leave are noticed even while
they are not read, so that no client can keep the next one out.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable
from functools import partial

from dray.node.runtimes.shim import frames, poll, processes
from dray.node.runtimes.shim.clients import Client
from dray.node.runtimes.shim.container_input import ContainerInput
from dray.node.runtimes.shim.poll import Poll
from dray.node.runtimes.shim.terminal import resize

_MOST_ATTACHED = 32
_MOST_WAITING = 128
_LAST_WORDS_SECONDS = 1.0
_NO_DESCRIPTOR_SECONDS = 0.05


class Control:
    def __init__(self, events: Poll, *, tty: bool, stdin_once: bool) -> None:
        self._poll = events
        self._tty = tty
        self._stdin_once = stdin_once
        self._clients: list[Client] = []
        self._input = ContainerInput()
        self._input_changed: Callable[[], None] = lambda: None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def listen(self) -> None:
        self._listener.setblocking(False)
        with contextlib.suppress(FileNotFoundError):
            os.unlink("control.sock")
        self._listener.bind("control.sock")
        os.chmod("control.sock", 0o600)
        self._listener.listen(_MOST_WAITING)

    def serve(self, container_input: ContainerInput, input_changed: Callable[[], None]) -> None:
        """Starts to accept clients. `input_changed` is called after a client has sent input."""
        self._input, self._input_changed = container_input, input_changed
        self._poll.watch(self._listener.fileno(), poll.READ, self._accept)

    def output(self, letter: bytes, data: bytes) -> None:
        """Sends output of the container to all attached clients."""
        frame = frames.frame(letter, data)
        for client in [client for client in self._clients if client.attached]:
            self._try(client, lambda client: client.send(frame))

    def resume(self) -> None:
        """Resumes reading from clients that were paused, if the container has taken enough input."""
        if not self._input.is_full:
            for client in [client for client in self._clients if client.paused]:
                self._try(client, self._obey_all)

    def close(self, ended: bytes) -> None:
        """Tells all clients how the container ended: first agents that wait for the end, then attached clients."""
        end = time.monotonic() + _LAST_WORDS_SECONDS
        for client in sorted(self._clients, key=lambda client: client.attached):
            with contextlib.suppress(OSError):
                client.send(frames.frame(frames.EXIT, ended))
            client.close(max(end - time.monotonic(), 0.0))

    def _accept(self, _mask: int) -> None:
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:
            # No file descriptor is free: disconnect an attached client.
            if attached := [client for client in self._clients if client.attached]:
                self._drop(attached[0])
            time.sleep(_NO_DESCRIPTOR_SECONDS)
            return
        client = Client(connection)
        self._clients.append(client)
        self._watch(client)

    def _watch(self, client: Client) -> None:
        self._poll.watch(client.connection.fileno(), client.wanted, partial(self._serve, client))

    def _try(self, client: Client, act: Callable[[Client], object]) -> None:
        try:
            act(client)
        except (OSError, ValueError):
            self._drop(client)
        else:
            self._watch(client)

    def _drop(self, client: Client) -> None:
        self._poll.forget(client.connection.fileno())
        self._clients.remove(client)
        client.connection.close()
        if client.sent_input and self._stdin_once:
            self._input.end()
            self._input_changed()

    def _serve(self, client: Client, mask: int) -> None:
        if mask & poll.WRITE:
            self._try(client, Client.flush)
        if client not in self._clients:
            return
        if mask & poll.READ and not client.paused:
            self._try(client, self._read)
        elif mask & poll.GONE:
            self._drop(client)

    def _read(self, client: Client) -> None:
        client.receive()
        self._obey_all(client)

    def _obey_all(self, client: Client) -> None:
        while True:
            letter, _ = client.reader.next()
            client.paused = letter == frames.INPUT and self._input.is_full
            if client.paused or (body := client.reader.take()) is None:
                return
            self._obey(client, letter, body)

    def _obey(self, client: Client, letter: bytes, body: bytes) -> None:
        if letter == frames.SIGNAL:
            processes.send(int(body))
        elif letter == frames.ATTACH:
            if sum(client.attached for client in self._clients) >= _MOST_ATTACHED:
                raise OSError("too many clients are attached")
            client.attached = True
        elif letter == frames.RESIZE and self._tty:
            columns, rows = json.loads(body)
            resize(self._input.descriptor, columns, rows)
        elif letter == frames.INPUT and self._input.is_open:
            client.sent_input = True
            self._input.add(body)
            self._input_changed()
        elif letter == frames.END_OF_INPUT and self._input.is_open:
            self._input.end()
            self._input_changed()
