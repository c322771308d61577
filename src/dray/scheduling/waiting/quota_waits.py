"""Waits for quota, which are parts of the wait index: pods that lack quota, and pods that may reclaim quota later.

Pods that ask for the same of one queue are kept together, and only the first of them is woken. So the cost does not
grow with the number of waiting pods.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from dray.scheduling.model.reasons import ObjectRef
from dray.scheduling.quota.queue_policy import Ask, QueuePolicy
from dray.scheduling.quota.quota_log import Hopeful
from dray.scheduling.waiting.wait_entries import WaitEntries

# The number of kinds of pods that are checked at a time; each takes some microseconds.
_MOST: Final = 64
QUOTA: Final = "quota"
ANY_QUEUE: Final = ObjectRef(QUOTA, "", "")
"""The object of pods that any change of the queues may help."""


class Alike(NamedTuple):
    """The key of the wait of pods that lack quota. They ask for the same amounts of one queue, with the same
    priority."""

    root: str
    """The root of the queues that share quota with the queue."""
    queue: str
    line: str
    """The namespace of the pods and the queue name in their label. Several of these may stand for one queue."""
    priority: int
    wanted: frozenset[tuple[str, int]]
    key: Hashable = None
    """The `wait_key` of the pods."""


def alike(root: str, line: str, ask: Ask, key: Hashable) -> Alike:
    return Alike(root, ask.queue, line, ask.priority, frozenset(ask.wanted.items()), key)


class QuotaWaits:
    """Wakes pods that lack quota of their queue. They are in entries whose key is `Alike`. When quota is freed the
    first pod of each entry is woken, and the next one when the first got its quota or does not ask for it any more."""

    def __init__(self, entries: WaitEntries, is_waiting: Callable[[str], bool]) -> None:
        """`is_waiting` tells whether the pod with a uid has to wait on, whatever quota was freed."""
        self._entries = entries
        self._is_waiting = is_waiting
        self._ready: list[str] = []
        self._called: dict[str, dict[Alike, None]] = {}
        """The keys of the entries from which a pod was woken, by uid. While they are here, the other pods of these
        entries count on the pod: it gets the quota, lacks it like them, or the next of them is woken."""

    def lack(self, uid: str, key: Alike) -> None:
        """Notes that the pod asked for quota in vain."""
        called = self._called.pop(uid, {})
        called.pop(key, None)
        for other in list(called):
            # The pod may ask for something else by now; what was freed is enough for the next pod then.
            if other._replace(root=key.root) != key:
                del called[other]
                self._wake_first(other)
        if called:
            # Another limit is reached, as it is for the next pods. They need not ask as long as the pod waits.
            self._called[uid] = called

    def granted(self, uid: str, key: Alike) -> None:
        """Notes that the queue has quota for the pod, and wakes the next pods."""
        self.passed(uid)
        self._wake_first(key)

    def passed(self, uid: str) -> None:
        """Notes that the pod does not wait for quota, and wakes the next pods if this pod was woken for quota."""
        for key in self._called.pop(uid, {}):
            self._wake_first(key)

    def free(self, root: str, is_hopeful: Hopeful) -> None:
        """Wakes pods after quota below a root was freed."""
        for key in [key for entry in self._entries if isinstance(key := entry.wait.key, Alike) and key.root == root]:
            if is_hopeful(key.queue, key.priority, key.wanted):
                self._wake_first(key)

    def pop(self) -> list[str]:
        """Returns the uids of the pods that were woken since the last call."""
        ready, self._ready = self._ready, []
        return ready

    def _wake_first(self, key: Alike) -> None:
        entry = self._entries.get(key)
        first = entry.first() if entry is not None else None
        if first is not None and not self._is_waiting(first.pod.uid):
            self._called.setdefault(first.pod.uid, {})[key] = None
            self._ready.append(first.pod.uid)


class _Kind(NamedTuple):
    """The key of pods that ask for the same, so that the same change may help them."""

    queue: str
    priority: int
    wanted: frozenset[tuple[str, int]]
    lacks: bool
    """Whether the pods lacked quota; otherwise they had quota and fit on no node."""
    key: Hashable
    """The `wait_key` of the pods."""
    place_key: Hashable
    """What places of the pods depend on: other pods with the same amounts may use other nodes."""


class _Asked(NamedTuple):
    policy: QueuePolicy
    ask: Ask


Root = tuple[str, str]
"""The label of a queue system, and the root of queues of it that share quota."""


class ReclaimWaits:
    """Refused pods for which other pods may be evicted once these take quota.

    A pod that had quota but fit on no node may reclaim both when other pods take that quota, or more than their share.
    A pod that lacked quota and found no pods to evict may find some once a pod takes quota that may be evicted for it.
    Then the first of the pods that ask for the same is tried again. There may be thousands of kinds of such pods, so a
    limited number of kinds is checked at a time, in turn.
    """

    def __init__(self) -> None:
        self._kinds: dict[Root, OrderedDict[_Kind, OrderedDict[str, _Asked]]] = {}
        """The refused pods by root and kind, then by uid in the order in which they were refused."""
        self._places: dict[str, tuple[Root, _Kind]] = {}
        self._unchecked: dict[Root, int] = {}
        """The number of kinds of a root that were not checked since a pod took quota there."""
        self._takers: dict[Root, dict[str, int]] = {}
        """The queues whose pods took quota since, each with the lowest priority of these pods."""

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, policy: QueuePolicy, ask: Ask, *, lacks: bool, place_key: Hashable) -> None:
        """Adds refused pods; the first of them stands for all that are placed together. `lacks` tells whether they
        lacked quota. `place_key` is equal for pods that the same evictions help."""
        uid = ask.pod.uid
        self.remove(uid)
        root = policy.label, policy.queue(ask.queue).root
        wanted, key = frozenset(ask.wanted.items()), policy.evictions(ask).wait_key
        kind = _Kind(ask.queue, ask.priority, wanted, lacks, key, place_key)
        kinds = self._kinds.setdefault(root, OrderedDict())
        kinds.setdefault(kind, OrderedDict())[uid] = _Asked(policy, ask)
        self._places[uid] = root, kind

    def remove(self, uid: str) -> None:
        known = self._places.pop(uid, None)
        if known is not None:
            root, kind = known
            kinds = self._kinds[root]
            del kinds[kind][uid]
            if not kinds[kind]:
                del kinds[kind]
            if not kinds:
                del self._kinds[root]

    def clear(self) -> None:
        self._kinds.clear()
        self._places.clear()
        self._unchecked.clear()
        self._takers.clear()

    def take(self, root: Root, queue: str, priority: int) -> None:
        """Notes that a pod of the queue took quota."""
        if root in self._kinds:
            self._unchecked[root] = len(self._kinds[root])
            takers = self._takers.setdefault(root, {})
            takers[queue] = min(priority, takers.get(queue, priority))

    @property
    def is_checked(self) -> bool:
        """Whether all kinds were checked since a pod took quota."""
        return not self._unchecked

    def pop(self) -> list[str]:
        """Checks the next kinds. Returns the uid of the first pod of each kind for which pods may be evicted now, and
        removes these pods."""
        found: list[str] = []
        left = _MOST
        for root in list(self._unchecked):
            number = min(left, self._unchecked[root], len(self._kinds.get(root, ())))
            found += [uid for _ in range(number) if (uid := self._check_next(root))]
            left -= number
            self._unchecked[root] -= number
            if not number or not self._unchecked[root]:
                del self._unchecked[root]
                del self._takers[root]
            if not left:
                break
        return found

    def _check_next(self, root: Root) -> str:
        """Checks the next kind; returns the uid of its first pod if pods may be evicted for it, otherwise an empty
        string."""
        kind = next(iter(self._kinds[root]))
        self._kinds[root].move_to_end(kind)
        uid, (policy, ask) = next(iter(self._kinds[root][kind].items()))
        evictions, takers = policy.evictions(ask), self._takers[root].items()
        if not (not kind.lacks and policy.short(ask) is not None) and not any(
            evictions.may_evict(queue, priority, lacks=kind.lacks) for queue, priority in takers
        ):
            return ""
        self.remove(uid)
        return uid
