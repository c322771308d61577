"""What a store should be, in the plainest form: the list of all events, replayed for every question."""

from dray.store.interface import Ahead, Compacted, Conflict, EventType, Exists, Missing


class Model:
    def __init__(self):
        self.events = []  # (revision, type, key, value, created)
        self.revision = 0
        self.compacted = 0
        self.gaps = []

    def state(self, revision=None):
        """Records as (value, created, revision), by key."""
        state = {}
        for number, kind, key, value, created in self.events:
            if revision is not None and number > revision:
                break
            if kind is EventType.DELETED:
                del state[key]
            else:
                state[key] = (value, created, number)
        return state

    def refusal(self, revision):
        """What a reader at a revision is told instead of an answer."""
        if revision > self.revision:
            return Ahead
        if revision < self.compacted or any(first <= revision <= last for first, last in self.gaps):
            return Compacted
        return None

    def write(self, verb, key, value, expect):
        """Applies it, or returns how it must be refused."""
        current = self.state().get(key)
        if verb == "create" and current:
            return Exists
        if verb != "create" and not current:
            return Missing
        if verb != "create" and expect and current[2] != expect:
            return Conflict
        self.revision += 1
        kind = {"create": EventType.ADDED, "update": EventType.MODIFIED, "delete": EventType.DELETED}[verb]
        created = current[1] if current else self.revision
        self.events.append((self.revision, kind, key, f"{value}@{self.revision}".encode(), created))
        return None

    def lose(self, count, revision):
        """The newest writes came to nothing; the state without them has a revision of its own."""
        del self.events[len(self.events) - count :]
        self.gaps.append((self.revision - count + 1, revision - 1))
        self.revision = revision

    def page(self, prefix, limit, after, revision):
        keys = sorted(key for key in self.state(revision) if key.startswith(prefix) and key > after)
        records = [(key, *self.state(revision)[key]) for key in keys[: limit or None]]
        return records, len(keys) - len(records)

    def watched(self, prefix, after):
        return [event for event in self.events if event[0] > after and event[2].startswith(prefix)]
