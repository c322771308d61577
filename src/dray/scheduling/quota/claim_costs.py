"""ClaimCosts: the devices of a claim that a queue is charged for, and the alternatives that the queue has quota for.

An allocated claim costs its devices. Other claims cost the least that they could get: for each request the alternative
with the fewest devices, among those that the queue has quota for now, if there are any. The number of devices of a
request for all devices is known only after a node was chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from dray.api.objects import Object, key_of, mapping
from dray.api.quantity import Quantity, QuantityError
from dray.api.resource_claims import allocation_of, allocation_results, requests_of
from dray.scheduling.cluster.claim_assume_cache import ClaimAssumeCache
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Reason
from dray.scheduling.quota.queue_policy import Ask, DeviceUse, QueuePolicy

MOST: Final = 2**40

Excludes = Callable[[str, str], Reason | None]
"""Returns why pods of a queue may not use devices of a class, however many are free; None if they may."""
ShareSize = Callable[[Object], Mapping[str, int]]
"""Returns the capacity that a request takes of a device at most, by name of the capacity."""


def _nothing(request: Object) -> Mapping[str, int]:
    return {}


def _no_class(queue: str, class_name: str) -> Reason | None:
    return None


class ClaimCosts:
    def __init__(
        self,
        policy: QueuePolicy,
        claims: ClaimAssumeCache,
        *,
        share_size: ShareSize = _nothing,
        excludes: Excludes = _no_class,
    ) -> None:
        self._policy = policy
        self._claims = claims
        self._share_size = share_size
        self._excludes_class = excludes

    def of(self, queue: str, pod: Pod, claim: Object, allocation: Object | None = None) -> dict[str, int]:
        """Returns amounts by resource of the queue; `allocation` is the allocation that the claim would get."""
        return self._policy.amounts(queue, None, self._uses(queue, pod, claim, allocation))

    def excluded(self, queue: str, claim: Object) -> Reason | None:
        """Returns why pods of the queue may not use the claim: it covers no alternative of one of the requests."""
        for options in _options_of(claim):
            reasons = {name: self._excludes(queue, option) for name, option in options}
            if not any(reasons.values()):
                continue
            got = self._got(claim)
            possible = [reason for name, reason in reasons.items() if got is None or name in got]
            if possible and all(possible):
                return possible[0]
        return None

    def _excludes(self, queue: str, option: Object) -> Reason | None:
        return self._excludes_class(queue, str(option.get("deviceClassName")))

    def within_quota(
        self, queue: str, pod: Pod, claim: Object, wanted: Mapping[str, int], times: int
    ) -> tuple[Object, Reason | None]:
        """Returns the claim without the alternatives that the queue has no quota for, and the first reason. `wanted`
        are the amounts of all pods, with the cheapest alternatives of this claim `times` times."""
        requests, problem = [], None
        for request in requests_of(claim["spec"]):
            options = request.get("firstAvailable") or ()
            if len(options) > 1:
                refused = self._refused(queue, pod, options, wanted, times)
                problem = problem or next(filter(None, refused), None)
                left = [option for option, reason in zip(options, refused, strict=True) if reason is None]
                request = {**request, "firstAvailable": left}
            requests.append(request)
        if problem is None:
            return claim, None
        devices = {**claim["spec"]["devices"], "requests": requests}
        return {**claim, "spec": {**claim["spec"], "devices": devices}}, problem

    def _refused(
        self, queue: str, pod: Pod, options: Sequence[Object], wanted: Mapping[str, int], times: int
    ) -> list[Reason | None]:
        """Returns for each alternative why the queue has no quota for it; None for the cheapest that it covers."""
        cheapest = self._cheapest(queue, pod, options)
        found: list[Reason | None] = []
        for option in options:
            amounts = Counter(wanted)
            for changed, sign in ((cheapest, -times), (option, times)):
                for name, amount in self._cost(queue, changed).items():
                    amounts[name] += sign * amount
            short = None if option is cheapest else self._policy.short(self._ask(queue, pod, +amounts))
            found.append(self._excludes(queue, option) or short)
        return found

    def _cheapest(self, queue: str, pod: Pod, options: Sequence[Object]) -> Object:
        if len(options) == 1:
            return options[0]
        ordered = sorted(options, key=lambda option: self._use(option).number)
        if not queue:
            return ordered[0]
        ordered = [option for option in ordered if self._excludes(queue, option) is None] or ordered
        within_quota = (
            option for option in ordered if self._policy.short(self._ask(queue, pod, self._cost(queue, option))) is None
        )
        return next(within_quota, ordered[0])

    def _ask(self, queue: str, pod: Pod, amounts: Mapping[str, int]) -> Ask:
        member = self._policy.member(pod)
        return Ask((pod,), queue, amounts, member.priority if member is not None else pod.priority)

    def _cost(self, queue: str, option: Object) -> dict[str, int]:
        return self._policy.amounts(queue, None, [self._use(option)])

    def _uses(self, queue: str, pod: Pod, claim: Object, allocation: Object | None) -> Iterator[DeviceUse]:
        """Yields the devices that the claim got, or else the fewest that it could get, with the most capacity that
        these may take."""
        got = self._got(claim, allocation)
        for options in _options_of(claim):
            if got is not None:
                for name, option in options:
                    if name in got:
                        yield DeviceUse(str(option.get("deviceClassName")), len(got[name]), _consumed(got[name]))
            elif options:
                yield self._use(self._cheapest(queue, pod, [option for _, option in options]))

    def _got(self, claim: Object, allocation: Object | None = None) -> dict[str, list[Object]] | None:
        """Returns the devices that the claim got, by request; None if it is not allocated."""
        allocation = allocation or allocation_of(claim) or self._claims.assumed_allocation(key_of(claim))
        if not allocation:
            return None
        got: dict[str, list[Object]] = {}
        for result in allocation_results(allocation):
            got.setdefault(str(result.get("request")), []).append(result)
        return got

    def _use(self, option: Object) -> DeviceUse:
        number = min(MOST, option.get("count") or 1)
        return DeviceUse(str(option.get("deviceClassName")), number, self._requested(option, number))

    def _requested(self, option: Object, number: int) -> dict[str, int]:
        """Returns the most capacity that the request takes of its devices, as far as it is known."""
        asked = _amounts(mapping(mapping(option.get("capacity")).get("requests")))
        asked |= self._share_size(option)
        return {name: min(MOST * MOST, amount * number) for name, amount in asked.items()}


def _options_of(claim: Object) -> Iterator[list[tuple[str, Object]]]:
    """Yields the alternatives of each request, with their names in allocation results.

    Requests with adminAccess are left out, since they do not take devices from other claims.
    """
    for request in requests_of(claim["spec"]):
        options = [(request["name"], request["exactly"])] if request.get("exactly") else []
        alternatives = request.get("firstAvailable") or ()
        options += [(f"{request['name']}/{option['name']}", option) for option in alternatives]
        if not any(option.get("adminAccess") for _, option in options):
            yield options


def _consumed(results: Iterable[Object]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for result in results:
        found.update(_amounts(mapping(result.get("consumedCapacity"))))
    return found


def _amounts(quantities: Object) -> dict[str, int]:
    found = {}
    for name, quantity in quantities.items():
        with suppress(QuantityError):
            found[name] = Quantity.parse(str(quantity)).value()
    return found
