"""Pods and the claims they use: by name, and only where a claim of that name is for this pod."""

from __future__ import annotations

from dray.api.objects import Object, key_of, uid_of
from dray.api.pods import claim_entries, claims_used, group_name
from dray.controllers.claims.owners import GROUP, Consumer, made_for, users


def index_by_claim(pod: Object) -> list[str]:
    """Of an informer's cache: `namespace/claim`."""
    if not claim_entries(pod):
        return []
    namespace = key_of(pod)[0]
    return [f"{namespace}/{name}" for _, name in claims_used(pod)]


def uses(pod: Object, claim: Object) -> bool:
    """Whether the pod names the claim, the claim was made for it if it was made for a pod, and is reserved for it."""
    namespace, wanted = key_of(claim)
    if key_of(pod)[0] != namespace:
        return False
    for entry, name in claims_used(pod):
        generated = not entry.get("resourceClaimName")
        if name == wanted and (not generated or _is(made_for(claim), pod)):
            return any(_is(user, pod) for user in users(claim))
    return False


def _is(consumer: Consumer | None, pod: Object) -> bool:
    """Whether it is the pod, or the group of the pod, which it knows by name only."""
    if consumer is None:
        return False
    if consumer.kind is GROUP:
        return consumer.name == group_name(pod)
    return consumer.uid == uid_of(pod)
