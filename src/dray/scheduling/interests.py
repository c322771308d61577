"""Which waiting pods a claim's change may concern."""

from __future__ import annotations

from dray.scheduling.model import Key


def waiting_key(plural: str, key: Key) -> Key:
    """For objects of other kinds: a key that no claim has."""
    return key[0], f"{plural}/{key[1]}"


class Interests:
    """Pods by their uids."""

    def __init__(self) -> None:
        self._pods: dict[Key, set[str]] = {}
        self._claims: dict[str, tuple[Key, ...]] = {}

    def of(self, uid: str) -> tuple[Key, ...]:
        return self._claims.get(uid, ())

    def pods(self, claim: Key) -> tuple[str, ...]:
        return tuple(self._pods.get(claim, ()))

    def set(self, uid: str, claims: tuple[Key, ...]) -> None:
        """In these and in no others."""
        if self.of(uid) == claims:
            return
        self.lose(uid)
        if claims:
            self._claims[uid] = claims
        for claim in claims:
            self._pods.setdefault(claim, set()).add(uid)

    def lose(self, uid: str) -> None:
        for claim in self._claims.pop(uid, ()):
            uids = self._pods.get(claim)
            if uids is not None:
                uids.discard(uid)
                if not uids:
                    del self._pods[claim]
