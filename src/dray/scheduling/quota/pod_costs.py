"""PodCosts: the amounts that waiting pods would be charged now.

Claims that are charged already because of pods on nodes cost nothing more. A claim that several of the waiting pods
share is counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from dray.allocation.usage import ClaimKey
from dray.api.objects import Object, key_of
from dray.scheduling.cluster.claim_assume_cache import ClaimAssumeCache
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Reason
from dray.scheduling.model.status import Status
from dray.scheduling.quota.claim_costs import MOST, ClaimCosts
from dray.scheduling.quota.queue_policy import QueuePolicy

_NOTHING: Final[Mapping[ClaimKey, Object]] = {}


class PodCosts:
    def __init__(
        self,
        policy: QueuePolicy,
        claims: ClaimAssumeCache,
        costs: ClaimCosts,
        is_charged: Callable[[str, ClaimKey], bool],
        refresh: Callable[[], None],
    ) -> None:
        """`is_charged` tells whether a claim is charged to a queue already; `refresh` brings that up to date."""
        self._policy = policy
        self._claims = claims
        self._costs = costs
        self._is_charged = is_charged
        self._refresh = refresh

    def wanted(
        self, queue: str, pods: Iterable[Pod], times: int = 1, got: Mapping[ClaimKey, Object] = _NOTHING
    ) -> dict[str, int]:
        """Returns the amounts by resource that the pods would be charged now. Claims that are charged already cost
        nothing, and shared claims count once. Each pod stands for `times` pods, which may not exist yet. `got` are
        allocations that claims would get."""
        self._refresh()
        found: dict[str, int] = {}
        seen: set[ClaimKey] = set()
        for pod in pods:
            _add(found, self._policy.amounts(queue, pod, ()), times)
            for entry, claim in self._entries_of(pod):
                key = key_of(claim)
                if key not in seen and not self._is_charged(queue, key):
                    _add(found, self._costs.of(queue, pod, claim, got.get(key)), times if is_its_own(entry) else 1)
                seen.add(key)
        return found

    def claims_wanted(self, queue: str, pod: Pod) -> dict[ClaimKey, dict[str, int]]:
        """Returns the cost of each claim of the pod that is not charged to the queue yet."""
        found = {key_of(claim): claim for claim in self.claims_of(pod)}
        return {
            key: self._costs.of(queue, pod, claim) for key, claim in found.items() if not self._is_charged(queue, key)
        }

    def excluded(self, queue: str, pod: Pod) -> Reason | None:
        """Returns why the pod may not use the devices of one of its claims, however many are free; None if it may."""
        reasons = (self._costs.excluded(queue, claim) for claim in self.claims_of(pod))
        return next((reason for reason in reasons if reason is not None), None)

    def within_quota(
        self, queue: str, pod: Pod, claims: Sequence[Object], times: int
    ) -> tuple[Sequence[Object], Reason | None]:
        """Returns the claims without the alternatives that the queue has no quota for, and why; the same claims if it
        has quota for all. `times` is the number of pods like this one; the others count with what they want at
        least."""
        self._refresh()
        # Claims that the pods share are charged once.
        own = {
            key: 1 if key in self._claims.shared else times
            for key in map(key_of, self.claims_of(pod))
            if not self._is_charged(queue, key)
        }
        wanted: dict[str, int] = {}
        _add(wanted, self._policy.amounts(queue, pod, ()), times)
        for claim in claims:
            _add(wanted, self._costs.of(queue, pod, claim), own.get(key_of(claim), 0))
        found, problem = [], None
        for claim in claims:
            if key_of(claim) in own:
                claim, reason = self._costs.within_quota(queue, pod, claim, wanted, own[key_of(claim)])
                problem = problem or reason
            found.append(claim)
        return (found, problem) if problem is not None else (claims, None)

    def claims_of(self, pod: Pod) -> list[Object]:
        return [claim for _, claim in self._entries_of(pod)]

    def _entries_of(self, pod: Pod) -> list[tuple[Object, Object]]:
        """Returns the entries of the pod's spec.resourceClaims, each with its claim; empty if a claim is missing."""
        resolved = self._claims.resolve(pod.document)
        return [] if isinstance(resolved, Status) else resolved


def is_its_own(entry: Object) -> bool:
    """Whether each pod with this entry gets a claim of its own, from a template."""
    return bool(entry.get("resourceClaimTemplateName"))


def _add(found: dict[str, int], amounts: Mapping[str, int], times: int) -> None:
    for name, amount in amounts.items():
        found[name] = found.get(name, 0) + (amount if times == 1 else min(MOST * MOST, amount * times))
