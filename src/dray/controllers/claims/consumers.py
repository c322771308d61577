"""Consumers of claims: pods and pod groups, and whether they still use what is reserved for them.

What a cache says of a pod can be trusted where it cannot change back: a pod that has ended stays so. That a pod is not
in the cache, or is another one of the same name, may only mean that the cache is behind: then the server is asked.
"""

from __future__ import annotations

from typing import Final

from dray.api.caches import BoundedDict
from dray.api.objects import Object, uid_of
from dray.api.pods import group_name, has_entry, is_done
from dray.client.api import ApiClient
from dray.client.cache import Cache
from dray.client.errors import NotFound
from dray.controllers.claims.owners import POD, Consumer, OwnerKind

_GONE: Final = 16384


class UnknownGroup(Exception):
    """The pod's group is not in the cache yet."""


class Consumers:
    def __init__(self, client: ApiClient, pods: Cache, *, workload_claims: bool) -> None:
        self.pods = pods
        self.groups: Cache | None = None
        """The cache of pod groups; None if the server does not serve them."""
        self.awaits_groups = False
        """Whether the server may serve groups and has not been asked yet."""
        self.workload_claims = workload_claims
        """Whether groups may have claims."""
        self._client = client
        self._gone: BoundedDict[str, None] = BoundedDict(_GONE)
        """Uids of deleted pods and groups, so that the server is not asked about them."""

    def get(self, kind: OwnerKind, namespace: str, name: str) -> Object | None:
        cache = self.pods if kind is POD else self.groups
        return None if cache is None else cache.get(name, namespace=namespace)

    def deleted(self, consumer: Object) -> None:
        """Remembers the uid of a deleted pod or group, so that the server is not asked about it."""
        self._gone[uid_of(consumer)] = None

    def known_to_use(self, consumer: Consumer) -> bool | None:
        """Whether it may still use its claims; None if the server must be asked."""
        kind, namespace, name, uid = consumer
        if uid in self._gone:
            return False
        if kind is not POD and (self.groups is None or not self.workload_claims):
            return True
        found = self.get(kind, namespace, name)
        if found is None or uid_of(found) != uid:
            return None
        return kind is not POD or not is_done(found)

    async def uses(self, consumer: Consumer) -> bool:
        known = self.known_to_use(consumer)
        if known is not None:
            return known
        kind, namespace, name, uid = consumer
        try:
            found = await self._client.get(kind.resource, name, namespace=namespace)
        except NotFound:
            found = None
        if found is None or uid_of(found) != uid:
            self._gone[uid] = None
            return False
        return kind is not POD or not is_done(found)

    def group_of(self, pod: Object) -> Object | None:
        """Returns the pod's group, None for a pod without one. Raises UnknownGroup if it is not cached yet."""
        name = group_name(pod)
        if not name:
            return None
        if self.groups is None:
            if self.awaits_groups:
                raise UnknownGroup(name)
            return None
        group = self.groups.get(name, namespace=pod["metadata"]["namespace"])
        if group is None:
            raise UnknownGroup(name)
        return group

    def group_sharing(self, pod: Object, entry: dict[str, str]) -> Object | None:
        """Returns the pod's group if the entry's claim belongs to the group. Raises UnknownGroup."""
        group = self.group_of(pod)
        return group if group is not None and has_entry(group, entry) else None

    def owns(self, owner: Object, uid: str) -> bool:
        """Whether this is the uid of the owner or of the group it belongs to."""
        if uid == uid_of(owner):
            return True
        try:
            group = self.group_of(owner)
        except UnknownGroup:
            return False
        return group is not None and uid == uid_of(group)
