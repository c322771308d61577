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
import signal
import time
from functools import partial
from typing import Any

from dray.node.runtimes.shim import child, frames, poll, processes, system
from dray.node.runtimes.shim.container_input import ContainerInput
from dray.node.runtimes.shim.control import Control
from dray.node.runtimes.shim.log import Log
from dray.node.runtimes.shim.poll import Poll

_CHUNK = 64 * 1024
_TURN = 16


class Supervisor:
    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._poll = Poll()
        self._control = Control(self._poll, tty=spec["tty"], stdin_once=spec["stdin_once"])
        self._stdin = -1
        """Descriptor with which the shim writes the input of the container."""
        self._outputs: dict[int, int] = {}
        self._pid = 0
        self._wakeups: tuple[int, int] = (-1, -1)
        self._is_bereft = False
        """True once the process given by `ends_with` has ended: then this shim must clean up after the container."""

    def run(self) -> int:
        system.become_subreaper()
        # The agent needs this file to end a container whose start hangs.
        _write_json("shim.json", {"shim": os.getpid()}, lasting=False)
        self._control.listen()
        self._watch_children()
        problem = self._start()
        if problem:
            self._tell_agent({"problem": problem})
            return 1
        state = {"pid": self._pid, "shim": os.getpid(), "started_at": time.time()}
        _write_json("state.json", state)
        self._log = Log(self._spec["log_path"], size=self._spec["log_size"], files=self._spec["log_files"])
        self._input = ContainerInput(self._stdin, tty=self._spec["tty"])
        self._control.serve(self._input, self._watch_input)
        self._end_with(self._spec["ends_with"])
        self._tell_agent(state)
        self._supervise()
        return 0

    # Starting

    def _watch_children(self) -> None:
        self._wakeups = os.pipe()
        for end in self._wakeups:
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wakeups[1], warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._poll.watch(self._wakeups[0], poll.READ, self._woken)

    def _start(self) -> str:
        """Starts the process. Returns why it failed, or ""."""
        told, tell = os.pipe()
        ends, shim = self._make_streams(), os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            os.setsid()
            self._use_streams(ends)
            child.run(self._spec, tell, shim)
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
        """Returns the container's ends of its streams: input, output, errors."""
        if self._spec["tty"]:
            ours, theirs = pty.openpty()
            self._stdin = ours
            self._outputs = {ours: 1}
            os.set_blocking(ours, False)
            self._poll.watch(ours, poll.READ, partial(self._copy, ours))
            return theirs, theirs, theirs
        output, errors = self._output(1), self._output(2)
        if not self._spec["stdin"]:
            return os.open("/dev/null", os.O_RDONLY), output, errors
        theirs, self._stdin = os.pipe()
        os.set_blocking(self._stdin, False)
        return theirs, output, errors

    def _output(self, stream: int) -> int:
        """Returns the container's end of a new pipe that is copied as this stream."""
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        self._outputs[ours] = stream
        self._poll.watch(ours, poll.READ, partial(self._copy, ours))
        return theirs

    def _use_streams(self, ends: tuple[int, int, int]) -> None:
        for number, end in enumerate(ends):
            os.dup2(end, number, inheritable=True)
        if self._spec["tty"]:
            import fcntl
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def _tell_agent(self, message: dict[str, Any]) -> None:
        """Writes a message to the agent on standard output, which is closed after that."""
        with contextlib.suppress(OSError):
            os.write(1, json.dumps(message).encode())
        null = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)

    def _end_with(self, pid: int) -> None:
        """Kills the container when that process ends."""
        if not pid:
            return
        try:
            opened = os.pidfd_open(pid)
        except ProcessLookupError:
            self._is_bereft = True
            processes.send(signal.SIGKILL)
        else:
            self._poll.watch(opened, poll.READ, partial(self._bereft, opened))

    def _bereft(self, descriptor: int, _mask: int) -> None:
        self._poll.forget(descriptor)
        self._is_bereft = True
        processes.send(signal.SIGKILL)
        # No agent is left to remove the network of the pod.
        with contextlib.suppress(OSError):
            if self._spec["network"]:
                system.unmount(self._spec["network"])

    # While it runs

    def _supervise(self) -> None:
        status = None
        while status is None:
            self._poll.wait()
            self._control.resume()
            status = self._reap()
        processes.end_all()
        # Executed commands are children of the agent, so the control groups are searched for them.
        processes.end_groups(self._spec["cgroups"])
        while any([self._copy(end, poll.READ) for end in list(self._outputs)]):
            pass
        self._log.close()
        ended = {"code": os.waitstatus_to_exitcode(status), "finished_at": time.time()}
        _write_json("exit.json", ended)
        if self._is_bereft:
            processes.remove_groups(self._spec["cgroups"])
        self._control.close(json.dumps(ended).encode())

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

    def _woken(self, _mask: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wakeups[0], 512):
                pass

    def _copy(self, end: int, mask: int) -> bool:
        """Copies output of the container to log and clients. Returns True if there may be more.

        It returns after a limited amount, so that signals reach a container that never stops writing.
        """
        if mask & poll.WRITE:
            self._write_input(mask)
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
                self._poll.forget(end)
                del self._outputs[end]
                return False
            self._log.write(stream, data)
            self._control.output(frames.OUTPUT if stream == 1 else frames.ERRORS, data)
        return True

    # Input

    def _watch_input(self) -> None:
        """Watches the input of the container while bytes are left to write."""
        descriptor, waiting = self._input.descriptor, self._input.is_waiting
        if self._spec["tty"]:
            if self._poll.watches(descriptor):
                wanted = poll.READ | (poll.WRITE if waiting else 0)
                self._poll.watch(descriptor, wanted, partial(self._copy, descriptor))
        elif waiting:
            self._poll.watch(descriptor, poll.WRITE, self._write_input)
        else:
            self._poll.forget(self._stdin)
        if not self._input.is_open:
            # The number of the closed descriptor may be reused.
            self._stdin = -1

    def _write_input(self, _mask: int) -> None:
        self._input.write()
        self._watch_input()


def _write_json(name: str, content: dict[str, Any], *, lasting: bool = True) -> None:
    """Replaces a file atomically. A `lasting` file also survives a power failure."""
    with open(f"{name}.new", "w") as file:
        json.dump(content, file)
        if lasting:
            file.flush()
            os.fsync(file.fileno())
    os.rename(f"{name}.new", name)
