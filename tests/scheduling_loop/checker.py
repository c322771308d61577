"""Whether devices are held by claims that exclude each other, worked out from the objects alone.

It shares no code with the allocator. Slices say what devices are like; they are remembered when they are gone, as
claims go on holding what was published once.
"""

from collections import Counter, defaultdict
from contextlib import aclosing

from dray.client.errors import ApiError
from dray.testing.cluster import kind_of


class Checker:
    def __init__(self, slices=()):
        self._devices = {}
        self._counters = {}
        for each in slices:
            self.publish(each)
        self.problems = []
        self.events = 0
        self._claims = {}

    def publish(self, slice_):
        spec = slice_["spec"]
        pool = (spec["driver"], spec["pool"]["name"])
        for device in spec.get("devices") or ():
            self._devices[(*pool, device["name"])] = device
        for counters in spec.get("sharedCounters") or ():
            totals = {name: int(each["value"]) for name, each in counters["counters"].items()}
            self._counters[(*pool, counters["name"])] = totals

    def problems_of(self, claims):
        exclusive, shares = defaultdict(list), defaultdict(list)
        for claim in claims:
            name = claim["metadata"]["name"]
            for result in ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results") or ():
                if result.get("adminAccess"):
                    continue
                device = (result["driver"], result["pool"], result["device"])
                (shares if result.get("shareID") else exclusive)[device].append((name, result))
        found = [f"{d} is held by {[n for n, _ in o]}" for d, o in exclusive.items() if len(o) > 1]
        found += [f"{d} is held by {exclusive[d][0][0]} and in shares" for d in exclusive.keys() & shares.keys()]
        for device, holders in shares.items():
            found += self._too_much(device, holders)
        return found + self._overdrawn(exclusive.keys() | shares.keys())

    def _too_much(self, device, holders):
        used = Counter()
        for _, result in holders:
            for name, amount in (result.get("consumedCapacity") or {}).items():
                used[name] += int(amount)
        capacity = self._devices.get(device, {}).get("capacity") or {}
        return [f"{device} gives {n} of {name}" for name, n in used.items() if n > int(capacity[name]["value"])]

    def _overdrawn(self, devices):
        used = Counter()
        for device in devices:
            for entry in self._devices.get(device, {}).get("consumesCounters") or ():
                for name, each in entry["counters"].items():
                    used[(*device[:2], entry["counterSet"], name)] += int(each["value"])
        return [f"{key} is drawn upon {n} times" for key, n in used.items() if n > self._counters[key[:3]][key[3]]]

    async def watch(self, client):
        """Looks at every version that claims ever have, so far as the server remembers them. Until it is cancelled."""
        while True:
            version = await self._list(client)
            try:
                await self._follow(client, version)
            except ApiError as error:
                if not (error.is_gone or error.is_ahead):
                    raise

    async def _list(self, client):
        listed = await client.list_all(kind_of("ResourceClaim"))
        self._claims = {each["metadata"]["uid"]: each for each in listed["items"]}
        self._look(listed)
        return listed["metadata"]["resourceVersion"]

    async def _follow(self, client, version):
        async with aclosing(client.watch(kind_of("ResourceClaim"), resource_version=version)) as events:
            async for event in events:
                if event.type != "BOOKMARK":
                    self.take(event)

    def take(self, event):
        self.events += 1
        uid = event.object["metadata"]["uid"]
        if event.type == "DELETED":
            self._claims.pop(uid, None)
        else:
            self._claims[uid] = event.object
        self._look(event.object)

    def _look(self, at):
        for problem in self.problems_of(self._claims.values()):
            self.problems.append(f"at {at['metadata']['resourceVersion']}: {problem}")
