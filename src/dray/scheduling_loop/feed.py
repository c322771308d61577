"""Feed: passes every change of the kinds that every server has to the scheduler."""

from __future__ import annotations

from collections.abc import Callable

from dray.api.catalogue import KindVersion, built_in
from dray.client.cache import Change
from dray.client.informer import Informer, Informers
from dray.scheduling.cluster.claim_assume_cache import is_newer
from dray.scheduling.scheduler import Scheduler

Now = Callable[[], float]
SetAside = Callable[[KindVersion, Change, Exception], None]


PODS = built_in("v1", "Pod")
NODES = built_in("v1", "Node")
CLAIMS = built_in("resource.k8s.io/v1", "ResourceClaim")
_NAMESPACES = built_in("v1", "Namespace")
_SLICES = built_in("resource.k8s.io/v1", "ResourceSlice")
_CLASSES = built_in("resource.k8s.io/v1", "DeviceClass")
_BUDGETS = built_in("policy/v1", "PodDisruptionBudget")


def feed(
    scheduler: Scheduler,
    informers: Informers,
    now: Now,
    wake: Callable[[], None],
    set_aside: SetAside,
) -> None:
    """Adds the handlers. `wake` is called after each change, `set_aside` with changes that the scheduler cannot
    read."""

    def taking(resource: KindVersion) -> Callable[[Change], None]:
        def take(change: Change) -> None:
            try:
                (scheduler.remove if change.type == "DELETED" else scheduler.put)(resource.kind, change.object, now())
            except Exception as error:
                set_aside(resource, change, error)
            wake()

        return take

    for each in (NODES, _SLICES, _CLASSES, _NAMESPACES, _BUDGETS, CLAIMS, PODS):
        informers.of(each).add_handler(taking(each))
    claims = informers.of(CLAIMS)

    def listed() -> None:
        _forget_unseen(scheduler, claims, now())
        wake()

    claims.on_list(listed)


def _forget_unseen(scheduler: Scheduler, claims: Informer, now: float) -> None:
    """Removes claims that were known only from answers to writes, and were deleted before a watch or list showed
    them."""
    for claim in list(scheduler.state.claims.all()):
        metadata = claim["metadata"]
        unseen = claims.cache.get(metadata["name"], namespace=metadata["namespace"]) is None
        if unseen and not is_newer(metadata.get("resourceVersion"), claims.resource_version):
            scheduler.remove("ResourceClaim", claim, now)
