"""Sessions of viewers, and the single-use codes that start one.

A session is known by two random numbers that only the viewer's browser has: one in a cookie, which scripts cannot read,
and a key, which the page sends in a header. Browsers send the cookies of a host to all of its ports, where servers of
other users may listen; the key stays with the origin. A session ends when it is signed out, after eight hours without a
request, after a day, or when its credential is no longer valid. There are at most so many sessions of one user, and in
all: the one that was used longest ago gives way.

A code stands for an identity that was shown elsewhere (by a command with a kubeconfig). It is good once and for ten
minutes, and a user has at most ten. It has 40 random bits. Of wrong codes, ten a minute from one address and 200 a
minute in all are looked at, so that one address cannot keep others from signing in.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from dray.web.access import Identity

_IDLE: Final = 8 * 3600.0
_LONGEST: Final = 24 * 3600.0
_CODE_SECONDS: Final = 600.0
_MOST_CODES: Final = 100
_CODES_OF_USER: Final = 10
_WRONG_OF_ADDRESS: Final = 10
_WRONG_A_MINUTE: Final = 200
# Without letters and digits that look alike.
_ALPHABET: Final = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
Clock = Callable[[], float]


@dataclass(slots=True)
class Session:
    identity: Identity
    key: bytes
    """The digest of its key."""
    began: float
    used: float
    ended: bool = False
    streams: int = field(default=0)
    """How many are open."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """The two secrets that the browser of a viewer gets for a session."""

    cookie: str
    key: str


class Sessions:
    def __init__(self, *, most: int = 1000, most_of_user: int = 20, clock: Clock = time.monotonic) -> None:
        self._most = most
        self._most_of_user = most_of_user
        self._clock = clock
        self._sessions: dict[bytes, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, identity: Identity) -> Secrets:
        now = self._clock()
        self._drop([key for key, session in self._sessions.items() if not self._is_good(session, now)])
        own = [key for key, session in self._sessions.items() if session.identity.key == identity.key]
        self._drop(own[: max(0, len(own) - self._most_of_user + 1)])
        self._drop(list(self._sessions)[: max(0, len(self._sessions) - self._most + 1)])
        made = Secrets(secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        self._sessions[_digest(made.cookie)] = Session(identity, _digest(made.key), now, now)
        return made

    def find(self, given: Secrets) -> Session | None:
        """Returns the session of a cookie and its key, and notes that it was used."""
        cookie = _digest(given.cookie)
        session = self._sessions.get(cookie)
        if session is None or not hmac.compare_digest(session.key, _digest(given.key)):
            return None
        if not self.is_good(session):
            self._drop([cookie])
            return None
        session.used = self._clock()
        # The first are those that were used longest ago.
        self._sessions[cookie] = self._sessions.pop(cookie)
        return session

    def is_good(self, session: Session) -> bool:
        return self._is_good(session, self._clock())

    def end(self, given: Secrets) -> None:
        if self.find(given) is not None:
            self._drop([_digest(given.cookie)])

    def end_all(self) -> None:
        self._drop(list(self._sessions))

    def _is_good(self, session: Session, now: float) -> bool:
        # A stream is a use that lasts.
        idle = 0.0 if session.streams else now - session.used
        fresh = now - session.began < _LONGEST and idle < _IDLE
        return fresh and not session.ended and session.identity.is_valid()

    def _drop(self, keys: list[bytes]) -> None:
        for key in keys:
            if (session := self._sessions.pop(key, None)) is not None:
                session.ended = True


class TooManyWrongCodes(Exception):
    pass


class Codes:
    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._codes: dict[str, tuple[Identity, float]] = {}
        self._wrong: deque[tuple[float, str]] = deque()

    def issue(self, identity: Identity) -> str:
        now = self._clock()
        self._codes = {code: each for code, each in self._codes.items() if each[1] > now}
        own = [code for code, (user, _) in self._codes.items() if user.key == identity.key]
        for code in own[: max(0, len(own) - _CODES_OF_USER + 1)]:
            del self._codes[code]
        while len(self._codes) >= _MOST_CODES:
            del self._codes[next(iter(self._codes))]
        code = "".join(secrets.choice(_ALPHABET) for _ in range(8))
        self._codes[code] = identity, now + _CODE_SECONDS
        return f"{code[:4]}-{code[4:]}"

    def redeem(self, text: str, address: str = "") -> Identity | None:
        """Returns whom a code stands for, once; raises TooManyWrongCodes. `address` is where the code comes from."""
        now = self._clock()
        while self._wrong and now - self._wrong[0][0] >= 60:
            self._wrong.popleft()
        own = sum(each == address for _, each in self._wrong)
        if own >= _WRONG_OF_ADDRESS or len(self._wrong) >= _WRONG_A_MINUTE:
            raise TooManyWrongCodes
        code = "".join(character for character in text.upper() if character.isalnum())
        identity, until = self._codes.pop(code, (None, 0.0))
        if identity is None or until <= now or not identity.is_valid():
            self._wrong.append((now, address))
            return None
        return identity


def _digest(secret: str) -> bytes:
    """A dictionary of digests tells nothing about the secrets by the time that a look-up takes."""
    return hashlib.sha256(secret.encode()).digest()
