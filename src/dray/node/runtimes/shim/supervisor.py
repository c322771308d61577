"""The supervisor of one container: starts it, copies its streams, and keeps how it ended in `exit.json`.

It works in the container's directory. The container ends when its first process does: whatever that left behind is
killed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pty
import selectors
import signal
import socket
import time
from functools import partial
from typing import Any

from dray.node.runtimes.shim import child, frames, processes, system
from dray.node.runtimes.shim.clients import Client
from dray.node.runtimes.shim.log import Log
from dray.node.runtimes.shim.terminal import resize

_CHUNK = 64 * 1024
_TURN = 16
_MOST_INPUT = 1 << 20


class Supervisor:
    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._selector = selectors.DefaultSelector()
        self._clients: list[Client] = []
        self._input = bytearray()
        self._input_ended = False
        self._stdin = -1
        self._outputs: dict[int, int] = {}
        self._pid = 0
        self._wakeups: tuple[int, int] = (-1, -1)

    def run(self) -> int:
        system.become_subreaper()
        listener = self._listen()
        self._watch_children()
        problem = self._start()
        if problem:
            self._tell_agent({"problem": problem})
            return 1
        state = {"pid": self._pid, "shim": os.getpid(), "started_at": time.time()}
        _write_json("state.json", state)
        self._log = Log(self._spec["log_path"], size=self._spec["log_size"], files=self._spec["log_files"])
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._end_with(self._spec["ends_with"])
        self._tell_agent(state)
        self._supervise()
        return 0

    # Starting

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.setblocking(False)
        with contextlib.suppress(FileNotFoundError):
            os.unlink("control.sock")
        listener.bind("control.sock")
        os.chmod("control.sock", 0o600)
        listener.listen(16)
        return listener

    def _watch_children(self) -> None:
        self._wakeups = os.pipe()
        for end in self._wakeups:
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wakeups[1], warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._wakeups[0], selectors.EVENT_READ, self._woken)

    def _start(self) -> str:
        """Starts the process; what kept it from starting, or ""."""
        told, tell = os.pipe()
        ends = self._make_streams()
        self._pid = os.fork()
        if self._pid == 0:
            os.setsid()
            self._use_streams(ends)
            child.run(self._spec, tell)
        for end in {*ends, tell}:
            os.close(end)
        problem = b""
        while data := os.read(told, 4096):
            problem += data
        os.close(told)
        if problem:
            os.waitpid(self._pid, 0)
        return problem.decode(errors="replace")

    def _make_streams(self) -> tuple[int, int, int]:
        """The container's ends: input, output, errors."""
        if self._spec["tty"]:
            ours, theirs = pty.openpty()
            self._stdin = ours
            self._outputs = {ours: 1}
            os.set_blocking(ours, False)
            self._selector.register(ours, selectors.EVENT_READ, self._copy)
            return theirs, theirs, theirs
        output, errors = self._output(1), self._output(2)
        if not self._spec["stdin"]:
            return os.open("/dev/null", os.O_RDONLY), output, errors
        theirs, self._stdin = os.pipe()
        os.set_blocking(self._stdin, False)
        return theirs, output, errors

    def _output(self, stream: int) -> int:
        """The container's end of a pipe that is copied as this stream."""
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        self._outputs[ours] = stream
        self._selector.register(ours, selectors.EVENT_READ, self._copy)
        return theirs

    def _use_streams(self, ends: tuple[int, int, int]) -> None:
        for number, end in enumerate(ends):
            os.dup2(end, number, inheritable=True)
        if self._spec["tty"]:
            import fcntl
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def _tell_agent(self, message: dict[str, Any]) -> None:
        """Standard output is the agent's, until it has been told."""
        with contextlib.suppress(OSError):
            os.write(1, json.dumps(message).encode())
        null = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)

    def _end_with(self, pid: int) -> None:
        """Has the container killed when that process ends."""
        if not pid:
            return
        try:
            self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, self._bereft)
        except ProcessLookupError:
            processes.send(signal.SIGKILL)

    def _bereft(self, descriptor: Any, _mask: int) -> None:
        self._selector.unregister(descriptor)
        processes.send(signal.SIGKILL)
        # Nobody is left to end the network of the pod.
        with contextlib.suppress(OSError):
            if self._spec["network"]:
                system.unmount(self._spec["network"])

    # While it runs

    def _supervise(self) -> None:
        status = None
        while status is None:
            for key, mask in self._selector.select():
                key.data(key.fileobj, mask)
            status = self._reap()
        processes.end_all()
        while any([self._copy(end, selectors.EVENT_READ) for end in list(self._outputs)]):
            pass
        self._log.close()
        ended = {"code": os.waitstatus_to_exitcode(status), "finished_at": time.time()}
        _write_json("exit.json", ended)
        for client in self._clients:
            with contextlib.suppress(OSError):
                client.send(frames.frame(frames.EXIT, json.dumps(ended).encode()))
            client.close()

    def _reap(self) -> int | None:
        found = None
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self._pid:
                    found = status
        return found

    def _woken(self, end: Any, _mask: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(end, 512):
                pass

    def _copy(self, end: Any, mask: int) -> bool:
        """From the container to log and clients. True if there may be more: others wait too, such as for a signal to a
        container that never stops writing."""
        if mask & selectors.EVENT_WRITE:
            self._write_input()
        stream = self._outputs[end]
        for _ in range(_TURN):
            try:
                data = os.read(end, _CHUNK)
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                data = b""
            if not data:
                self._selector.unregister(end)
                del self._outputs[end]
                return False
            self._log.write(stream, data)
            letter = frames.OUTPUT if stream == 1 else frames.ERRORS
            for client in [each for each in self._clients if each.attached]:
                self._try(client, partial(_send, frame=frames.frame(letter, data)))
        return True

    # Clients

    def _accept(self, listener: Any, _mask: int) -> None:
        with contextlib.suppress(BlockingIOError):
            client = Client(listener.accept()[0])
            self._clients.append(client)
            self._selector.register(client.connection, selectors.EVENT_READ, lambda _, mask: self._serve(client, mask))

    def _try(self, client: Client, act: Any) -> None:
        try:
            act(client)
        except (OSError, ValueError):
            self._drop(client)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.waiting else 0)
        self._selector.modify(client.connection, wanted, self._selector.get_key(client.connection).data)

    def _drop(self, client: Client) -> None:
        self._selector.unregister(client.connection)
        self._clients.remove(client)
        client.connection.close()
        if client.sent_input and self._spec["stdin_once"]:
            self._end_input()

    def _serve(self, client: Client, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._try(client, Client.flush)
        if mask & selectors.EVENT_READ and client in self._clients and len(self._input) < _MOST_INPUT:
            self._try(client, self._read)

    def _read(self, client: Client) -> None:
        try:
            data = client.connection.recv(_CHUNK)
        except BlockingIOError:
            return
        if not data:
            raise OSError("the client left")
        for letter, body in client.reader.feed(data):
            self._obey(client, letter, body)

    def _obey(self, client: Client, letter: bytes, body: bytes) -> None:
        if letter == frames.ATTACH:
            client.attached = True
        elif letter == frames.SIGNAL:
            processes.send(int(body))
        elif letter == frames.RESIZE and self._spec["tty"]:
            columns, rows = json.loads(body)
            resize(self._stdin, columns, rows)
        elif letter == frames.INPUT and self._stdin >= 0:
            client.sent_input = True
            self._input += body
            self._write_input()
        elif letter == frames.END_OF_INPUT and self._stdin >= 0:
            self._end_input()

    def _write_input(self, *_: Any) -> None:
        """To the container, as much as it takes now; the rest once it reads."""
        while self._input:
            try:
                written = os.write(self._stdin, self._input)
            except BlockingIOError:
                break
            except OSError:
                self._input.clear()
                break
            del self._input[:written]
        registered = self._stdin in self._selector.get_map()
        if self._spec["tty"]:
            if registered:
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._input else 0)
                self._selector.modify(self._stdin, wanted, self._copy)
            return
        if self._input and not registered:
            self._selector.register(self._stdin, selectors.EVENT_WRITE, self._write_input)
        elif not self._input and registered:
            self._selector.unregister(self._stdin)
        if not self._input and self._input_ended:
            os.close(self._stdin)
            self._stdin = -1

    def _end_input(self) -> None:
        if self._spec["tty"]:
            # A terminal has no end of input; the character says so.
            self._input += b"\x04"
        self._input_ended = True
        if self._stdin >= 0:
            self._write_input()


def _send(client: Client, frame: bytes) -> None:
    client.send(frame)


def _write_json(name: str, content: dict[str, Any]) -> None:
    with open(f"{name}.new", "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{name}.new", name)
