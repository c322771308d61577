"""The claims as the scheduler sees them: the newest of what was watched and what it wrote or decided itself.

A decision is *assumed* at once: its devices are in use before it is written. It ends by `confirm`, with the claim as
the server has it now, or by `forget`. Watch events that are older than what is known are ignored, so that a late one
does not free a device that was just given away.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from dray.allocation import Inventory
from dray.allocation.devices import DeviceID
from dray.allocation.usage import claim_key, device_of
from dray.api.objects import Object, mappings
from dray.scheduling.model import Key

MOST_CONSUMERS: Final = 256
EXTENDED_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"

_MOST_GONE: Final = 10_000

Freed = Callable[[Iterable[DeviceID]], None]


class Unresolved(Exception):
    """A pod's claims are not there yet. `waits_for` are the claims whose coming or changing may help."""

    def __init__(self, message: str, waits_for: Key | None = None) -> None:
        super().__init__(message)
        self.waits_for = waits_for


class ClaimBook:
    """Keeps the inventory's usage in step; `freed` and `taken` are told which devices."""

    def __init__(self, inventory: Inventory, freed: Freed, taken: Freed) -> None:
        self._inventory = inventory
        self._freed = freed
        self._taken = taken
        self._claims: dict[Key, Object] = {}
        self._assumed: dict[Key, Object] = {}
        """Allocations that were decided and are not known to be written."""
        self._promised: dict[Key, set[str]] = {}
        """Pods by uid that will use a claim as soon as that is written."""
        self._special: dict[str, dict[Key, Object]] = {}
        """Claims for extended resources, by the uid of their pod."""
        self._gone: OrderedDict[Any, None] = OrderedDict()
        """The uids of claims that are no more: an answer that comes late must not bring one back."""
        self._used_by: dict[str, dict[Key, Object]] = {}
        """Claims by the uids of those they are reserved for."""

    def __len__(self) -> int:
        return len(self._claims)

    def get(self, key: Key) -> Object | None:
        return self._claims.get(key)

    def all(self) -> Iterable[Object]:
        return self._claims.values()

    def assumed(self, key: Key) -> bool:
        """Whether it is being allocated."""
        return key in self._assumed

    def promise(self, key: Key, uid: str) -> None:
        """The pod is to become a user of the claim; `withdraw` when it is, or is not to be any more."""
        self._promised.setdefault(key, set()).add(uid)

    def withdraw(self, key: Key, uid: str) -> None:
        uids = self._promised.get(key, set())
        uids.discard(uid)
        if not uids:
            self._promised.pop(key, None)

    def promised(self, key: Key) -> Iterable[str]:
        return self._promised.get(key, ())

    def is_gone(self, uid: str) -> bool:
        """Whether a claim was seen to be deleted, lately."""
        return uid in self._gone

    def special(self, pod_uid: str) -> Object | None:
        """What an earlier attempt left behind for the pod's extended resources."""
        return next(iter(self._special.get(pod_uid, {}).values()), None)

    def used_by(self, uid: str) -> list[Object]:
        """The claims that are reserved for it."""
        return list(self._used_by.get(uid, {}).values())

    def put(self, claim: Object) -> bool:
        """Whether it is news."""
        key, uid, users = claim_key(claim), _uid(claim), _consumers(claim)
        if uid in self._gone:
            return False
        known, left = self._claims.get(key), False
        if known is not None:
            if _uid(known) != uid:
                self._drop(key, known)
            elif _newer(claim, known):
                self._unlist(key, known)
                left = not set(_consumers(known)) <= set(users)
            else:
                return False
        self._claims[key] = claim
        for user in users:
            self._used_by.setdefault(user, {})[key] = claim
        if _is_special(claim):
            self._special.setdefault(_controller_uid(claim), {})[key] = claim
        self._follow(key, claim)
        if left:
            # With one user less it may pay to ask the others to go.
            self._freed(self._held(key))
        return True

    def remove(self, claim: Object) -> bool:
        key = claim_key(claim)
        known = self._claims.get(key)
        if known is None or _uid(known) != _uid(claim):
            return False
        self._drop(key, known)
        self._gone[_uid(claim)] = None
        if len(self._gone) > _MOST_GONE:
            self._gone.popitem(last=False)
        return True

    def assume(self, key: Key, allocation: Object) -> None:
        """The devices themselves are taken by `commit`."""
        self._assumed[key] = allocation

    def confirm(self, key: Key, claim: Object | None) -> None:
        """`claim` is what the server answered to the write."""
        known = self._claims.get(key)
        if claim is not None and known is not None and _uid(known) != _uid(claim) and _uid(claim) in self._gone:
            # It was of a claim that is no more; what is assumed is about its successor.
            return
        self._assumed.pop(key, None)
        if claim is not None and not self.put(claim) and key in self._claims:
            self._follow(key, self._claims[key])

    def forget(self, key: Key, allocation: Object) -> bool:
        """The decision is not written and will not be. False where it was not in force any more."""
        if self._assumed.get(key) is not allocation:
            # Confirmed, or what is assumed now is for another claim of that name.
            return False
        del self._assumed[key]
        claim = self._claims.get(key)
        if claim is None:
            self._release(key)
        else:
            self._follow(key, claim)
        return True

    def _follow(self, key: Key, claim: Object) -> None:
        """Brings the usage in line with the claim."""
        allocation = (claim.get("status") or {}).get("allocation")
        if allocation:
            results = (allocation.get("devices") or {}).get("results") or []
            if self._inventory.usage.claims.get(key) != results:
                before = self._held(key)
                self._inventory.put_claim(claim)
                self._taken(self._held(key) - before)
                self._freed(before - self._held(key))
        elif key not in self._assumed:
            self._release(key)

    def _release(self, key: Key) -> None:
        held = self._held(key)
        if key in self._inventory.usage.claims:
            self._inventory.remove_claim({"metadata": {"namespace": key[0], "name": key[1]}})
        if held:
            self._freed(held)

    def _held(self, key: Key) -> set[DeviceID]:
        results = self._inventory.usage.claims.get(key) or ()
        return set(map(device_of, results))

    def _drop(self, key: Key, claim: Object) -> None:
        del self._claims[key]
        self._unlist(key, claim)
        self._assumed.pop(key, None)
        if _is_special(claim):
            uid = _controller_uid(claim)
            self._special.get(uid, {}).pop(key, None)
            if not self._special.get(uid):
                self._special.pop(uid, None)
        self._release(key)

    def _unlist(self, key: Key, claim: Object) -> None:
        for uid in _consumers(claim):
            claims = self._used_by.get(uid, {})
            claims.pop(key, None)
            if not claims:
                self._used_by.pop(uid, None)

    def resolve(self, pod: Object) -> list[Object]:
        """The pod's claims, in the order it names them; raises Unresolved."""
        metadata = pod["metadata"]
        namespace = metadata.get("namespace") or ""
        found = []
        for entry, name in named_claims(pod):
            claim = self._claims.get((namespace, name))
            if claim is None:
                raise Unresolved(f'could not find ResourceClaim "{namespace}/{name}"', (namespace, name))
            if claim["metadata"].get("deletionTimestamp"):
                raise Unresolved(f'resourceclaim "{name}" is being deleted', (namespace, name))
            if entry.get("resourceClaimTemplateName") and not _belongs(claim, pod):
                raise Unresolved(
                    f"ResourceClaim {namespace}/{name} was not created for"
                    f" Pod {namespace}/{metadata['name']} (Pod is not owner)",
                    (namespace, name),
                )
            found.append(claim)
        return found


def named_claims(pod: Object) -> Iterator[tuple[Object, str]]:
    """The entries of the pod that need a claim, with its name; raises Unresolved."""
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    noted = {status.get("name"): status.get("resourceClaimName") or None for status in statuses}
    for entry in pod["spec"].get("resourceClaims") or ():
        name = _claim_name(pod, entry, noted)
        if name is not None:
            yield entry, name


def _claim_name(pod: Object, entry: Object, noted: Mapping[str | None, str | None]) -> str | None:
    """None where the entry needs no claim after all; `noted` are the names of the claims that were made."""
    if entry.get("resourceClaimName"):
        return str(entry["resourceClaimName"])
    if not entry.get("resourceClaimTemplateName"):
        part = f'spec.resourceClaim "{entry.get("name")}"'
        raise Unresolved(f"{_title(pod)}, {part}: none of the supported fields are set")
    if entry.get("name") not in noted:
        raise Unresolved(f"{_title(pod)}: ResourceClaim not created yet")
    return noted[entry.get("name")]


def _title(pod: Object) -> str:
    return f'pod "{pod["metadata"].get("namespace")}/{pod["metadata"]["name"]}"'


def _belongs(claim: Object, pod: Object) -> bool:
    """Whether a generated claim is the pod's own, or that of its group."""
    owner = _controller(claim)
    if owner.get("kind") == "PodGroup":
        group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
        return bool(group) and owner.get("name") == group
    return bool(owner.get("uid") == pod["metadata"].get("uid"))


def _consumers(claim: Object) -> list[str]:
    return [str(each.get("uid")) for each in mappings((claim.get("status") or {}).get("reservedFor"))]


def _controller(claim: Object) -> Object:
    owners: list[Object] = claim["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), {})


def _controller_uid(claim: Object) -> str:
    return str(_controller(claim).get("uid") or "")


def _is_special(claim: Object) -> bool:
    return (claim["metadata"].get("annotations") or {}).get(EXTENDED_CLAIM) == "true"


def _uid(claim: Object) -> Any:
    return claim["metadata"].get("uid")


def _newer(claim: Object, known: Object) -> bool:
    """Whether a version is later."""
    one, other = claim["metadata"].get("resourceVersion"), known["metadata"].get("resourceVersion")
    return one is None if one == other else is_newer(one, other)


def is_newer(version: Any, than: Any) -> bool:
    """Versions that are not numbers cannot be compared, and count as later."""
    try:
        return int(version) > int(than)
    except (TypeError, ValueError):
        return True
