"""What is seen of a fleet while it lives: whether any device is held twice, and whether something happened at all."""

import asyncio
from collections import Counter
from contextlib import aclosing

from dray.testing.cluster import kind_of


class Witness:
    def __init__(self, client):
        self._client = client
        self._claims = {}
        self.problems = []
        self.phases = Counter()
        self.restarts = 0
        self.failures = 0
        self.evicted = 0

    async def watch(self):
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, take in (("ResourceClaim", self._claim), ("Pod", self._pod), ("ResourceSlice", self._slice)):
                group.create_task(self._follow(kind, take))

    async def _follow(self, kind, take):
        async with aclosing(self._client.watch(kind_of(kind))) as events:
            async for event in events:
                if event.type != "BOOKMARK":
                    take(event.type, event.object)

    def _pod(self, type_, pod):
        status = pod.get("status") or {}
        self.phases[status.get("phase")] += 1
        self.restarts += sum(each["restartCount"] for each in status.get("containerStatuses") or ())
        self.evicted += any(each["type"] == "DisruptionTarget" for each in status.get("conditions") or ())
        if status.get("phase") == "Running" and type_ != "DELETED":
            self._usable(pod)

    def _usable(self, pod):
        """Whoever runs has its claims, allocated and reserved, at the moment it is seen to."""
        for entry in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
            claim = self._claims.get(entry.get("resourceClaimName"))
            if claim is not None and not _results(claim):
                self.problems.append(f"{pod['metadata']['name']} runs without {entry['resourceClaimName']}")

    def _slice(self, type_, slice_):
        self.failures += any(each.get("taints") for each in slice_["spec"].get("devices") or ())

    def _claim(self, type_, claim):
        name = claim["metadata"]["name"]
        if type_ == "DELETED":
            self._claims.pop(name, None)
            return
        self._claims[name] = claim
        held = {_key(each) for each in _results(claim) if not each.get("shareID")}
        if not held:
            return
        for other in self._claims.values():
            if other is not claim and held & {_key(each) for each in _results(other)}:
                self.problems.append(f"{name} and {other['metadata']['name']} hold {held}")


def _results(claim):
    return ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results") or ()


def _key(result):
    return result["driver"], result["pool"], result["device"]
