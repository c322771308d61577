"""A fuzz run: calls are sent to a cluster until the time is over or something is wrong.

Wrong are an answer of 5xx, a connection that breaks, and a traceback in the log; answers that take longer than STALL
are remembered. The last calls are written to a file, which `replay` sends again and cuts down to those that matter.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

from tests.attacks.cluster import Cluster
from tests.attacks.fuzz import protobuf
from tests.attacks.fuzz.calls import Call, Calls
from tests.attacks.observer import Measurement
from tests.attacks.processes import tree

STALL = 2.0
TRACEBACK = "Traceback (most recent call last)"
_KEPT = 3000
_WATCHES = 20


@dataclass(frozen=True)
class Sent:
    """A call as it went over the wire."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None

    def line(self) -> str:
        body = None if self.body is None else base64.b64encode(self.body).decode()
        return json.dumps({**asdict(self), "body": body})

    @classmethod
    def of(cls, line: str) -> Sent:
        found = json.loads(line)
        body = None if found["body"] is None else base64.b64decode(found["body"])
        return cls(**{**found, "body": body})

    def __str__(self) -> str:
        body = (self.body or b"").decode(errors="replace")
        return f"{self.method} {self.path} {self.headers}\n{body[:4000]}"


class Wrong(AssertionError):
    """What went wrong, and the call after which it was seen."""


class Sender:
    """One connection for calls, and some for watches that are opened and dropped."""

    def __init__(self, cluster: Cluster, timeout: float = 30.0) -> None:
        self._cluster = cluster
        self._timeout = timeout
        host = urlsplit(cluster.url)
        self._address = (host.hostname or "", host.port)
        self._connection = self._connect()
        self._watches: deque[http.client.HTTPConnection] = deque()
        self._log = len(cluster.log)
        self._pids = tree(cluster.pid)
        self.statuses: Counter[str] = Counter()
        self.longest = 0.0
        self.slow: list[tuple[float, Sent]] = []

    def send(self, sent: Sent, *, watch: bool = False) -> tuple[int, bytes]:
        if watch:
            return self._watch(sent), b""
        taken = Measurement(self._pids)
        try:
            self._connection.request(sent.method, sent.path, sent.body, sent.headers)
            answer = self._connection.getresponse()
            status, body = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Wrong(f"{error!r} after {taken.seconds:.1f} s") from error
        took = taken.seconds
        if took > STALL:
            took -= taken.starved
        self.longest = max(self.longest, took)
        self.statuses[f"{sent.method} {status}"] += 1
        if status >= 500 and not _as_in_kubernetes(sent, status):
            raise Wrong(f"{status}: {body[:1000]!r}")
        if took > STALL:
            self.slow.append((took, sent))
        return status, body

    def check(self) -> None:
        """Looks at what the server has logged since the last time."""
        log = self._cluster.log[self._log :]
        if TRACEBACK in log:
            raise Wrong(log[log.index(TRACEBACK) - 500 :][:6000])
        self._log += len(log)
        self._pids = tree(self._cluster.pid)

    def close(self) -> None:
        for each in (self._connection, *self._watches):
            each.close()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self._address, timeout=self._timeout)

    def _watch(self, sent: Sent) -> int:
        connection = self._connect()
        connection.request(sent.method, sent.path, headers=sent.headers)
        self._watches.append(connection)
        if len(self._watches) > _WATCHES:
            self._watches.popleft().close()
        return 200


class Run:
    def __init__(self, cluster: Cluster, seed: int, journal: Path) -> None:
        self._sender = Sender(cluster)
        self._calls = Calls(seed)
        self._random = Random(seed)
        self._stream = iter(self._calls)
        self._seed = seed
        self._journal = journal
        self._recent: deque[Sent] = deque(maxlen=_KEPT)
        self.sent = 0

    @property
    def accepted(self) -> int:
        return sum(count for name, count in self._sender.statuses.items() if name.split()[1].startswith("2"))

    @property
    def statuses(self) -> Counter[str]:
        return self._sender.statuses

    @property
    def slow(self) -> list[tuple[float, Sent]]:
        """Calls whose answer took longer than STALL, with the seconds that it took."""
        return self._sender.slow

    @property
    def longest(self) -> float:
        """Seconds of the longest answer."""
        return self._sender.longest

    def until(self, end: float) -> None:
        """Sends calls until that time of the monotonic clock."""
        try:
            while time.monotonic() < end:
                self._send(next(self._stream))
                self.sent += 1
                if self.sent % 50 == 0:
                    self._sender.check()
        except Wrong as wrong:
            raise Wrong(f"{wrong}\n\nseed {self._seed}, call {self.sent}: {self._recent[-1]}") from wrong
        finally:
            self._journal.write_text("".join(each.line() + "\n" for each in self._recent))

    def close(self) -> None:
        self._sender.close()

    def _send(self, call: Call) -> None:
        body = call.body
        if call.edit is not None:
            status, found = self._sender.send(Sent("GET", call.path, {}, None))
            if status != 200:
                return
            body = call.edit(json.loads(found))
        headers = dict(call.headers)
        # One in so many of the objects that come back goes back as protobuf.
        if call.edit is not None and self.sent % 4 == 0 and (encoded := protobuf.body(self._random, body)) is not None:
            body, headers["Content-Type"] = encoded, protobuf.PROTOBUF
        if body is not None and not isinstance(body, bytes):
            headers.setdefault("Content-Type", "application/json")
            body = (body if isinstance(body, str) else json.dumps(body)).encode(errors="surrogatepass")
        sent = Sent(call.method, call.path, headers, body)
        self._recent.append(sent)
        status, _ = self._sender.send(sent, watch=call.watch)
        if call.creates and status not in {200, 201, 202, 409}:
            self._calls.refused(call)


def _as_in_kubernetes(sent: Sent, status: int) -> bool:
    """Whether Kubernetes answers so, too: a binding without a target, and what is not implemented."""
    return status in {501, 503, 504} or (status == 500 and sent.path.partition("?")[0].endswith("/binding"))
