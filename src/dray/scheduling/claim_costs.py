"""ClaimCosts: which devices of a claim a queue is charged for, and which of its alternatives the queue can pay.

A claim that has devices costs these. One that has none yet costs the least it could get: of each request the
alternative with the fewest devices, of those that its queue can pay now if there are such. How many a request for all
devices gets is known when a node was chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from dray.api.objects import Object, key_of, mapping
from dray.api.quantity import Quantity, QuantityError
from dray.api.resource_claims import allocation_of, allocation_results, requests_of
from dray.scheduling.claim_assume_cache import ClaimAssumeCache
from dray.scheduling.model import Pod
from dray.scheduling.queue_policy import Ask, DeviceUse, QueuePolicy
from dray.scheduling.reasons import Reason
from dray.scheduling.share_sizes import ShareSizes

MOST: Final = 2**40


class ClaimCosts:
    def __init__(self, policy: QueuePolicy, claims: ClaimAssumeCache, share_sizes: ShareSizes | None) -> None:
        """`share_sizes` where queues count the capacity of devices."""
        self._policy = policy
        self._claims = claims
        self._share_sizes = share_sizes

    def of(self, queue: str, pod: Pod, claim: Object, thought: Object | None = None) -> dict[str, int]:
        """By resource of the queue; `thought` is the allocation that the claim would get."""
        return self._policy.devices(queue, self._uses(queue, pod, claim, thought))

    def payable(
        self, queue: str, pod: Pod, claim: Object, wanted: Mapping[str, int], times: int
    ) -> tuple[Object, Reason | None]:
        """The claim without alternatives that are too much for the queue, and why they are. `wanted` is all that is
        wanted beside it, with the cheapest alternatives of this claim, so many times."""
        requests, problem = [], None
        for request in requests_of(claim["spec"]):
            options = request.get("firstAvailable") or ()
            if len(options) > 1:
                refused = self._refused(queue, pod, options, wanted, times)
                problem = problem or next(filter(None, refused), None)
                left = [each for each, reason in zip(options, refused, strict=True) if reason is None]
                request = {**request, "firstAvailable": left}
            requests.append(request)
        if problem is None:
            return claim, None
        devices = {**claim["spec"]["devices"], "requests": requests}
        return {**claim, "spec": {**claim["spec"], "devices": devices}}, problem

    def _refused(
        self, queue: str, pod: Pod, options: Sequence[Object], wanted: Mapping[str, int], times: int
    ) -> list[Reason | None]:
        """Of each alternative why the queue cannot pay it; never of the cheapest."""
        cheapest = self._cheapest(queue, pod, options)
        found: list[Reason | None] = []
        for each in options:
            amounts = Counter(wanted)
            for option, sign in ((cheapest, -times), (each, times)):
                for name, amount in self._cost(queue, option).items():
                    amounts[name] += sign * amount
            found.append(self._policy.short(self._ask(queue, pod, +amounts)) if each is not cheapest else None)
        return found

    def _cheapest(self, queue: str, pod: Pod, options: Sequence[Object]) -> Object:
        ordered = sorted(options, key=lambda each: self._use(each).number)
        if len(ordered) == 1 or not queue:
            return ordered[0]
        payable = (
            each for each in ordered if self._policy.short(self._ask(queue, pod, self._cost(queue, each))) is None
        )
        return next(payable, ordered[0])

    def _ask(self, queue: str, pod: Pod, amounts: Mapping[str, int]) -> Ask:
        return Ask((pod,), queue, amounts, self._policy.priority(pod))

    def _cost(self, queue: str, option: Object) -> dict[str, int]:
        return self._policy.devices(queue, [self._use(option)])

    def _uses(self, queue: str, pod: Pod, claim: Object, thought: Object | None) -> Iterator[DeviceUse]:
        """Those that it got, or else the fewest that it could get, with the most that these may take."""
        allocation = thought or allocation_of(claim) or self._claims.assumed_allocation(key_of(claim))
        got: dict[str, list[Object]] = {}
        for each in allocation_results(allocation) if allocation else ():
            got.setdefault(str(each.get("request")), []).append(each)
        for request in requests_of(claim["spec"]):
            options = [(request["name"], request["exactly"])] if request.get("exactly") else []
            options += [(f"{request['name']}/{each['name']}", each) for each in request.get("firstAvailable") or ()]
            if any(each.get("adminAccess") for _, each in options):
                continue
            if allocation:
                for name, each in options:
                    if name in got:
                        yield DeviceUse(str(each.get("deviceClassName")), len(got[name]), _consumed(got[name]))
            elif options:
                yield self._use(self._cheapest(queue, pod, [each for _, each in options]))

    def _use(self, option: Object) -> DeviceUse:
        number = min(MOST, option.get("count") or 1)
        return DeviceUse(str(option.get("deviceClassName")), number, self._requested(option, number))

    def _requested(self, option: Object, number: int) -> dict[str, int]:
        """What it takes of the capacity of devices, at most, as far as is known."""
        asked = _amounts(mapping(mapping(option.get("capacity")).get("requests")))
        if self._share_sizes is not None and self._policy.counts_capacity:
            asked |= self._share_sizes.of(option)
        return {name: min(MOST * MOST, amount * number) for name, amount in asked.items()}


def _consumed(results: Iterable[Object]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for each in results:
        found.update(_amounts(mapping(each.get("consumedCapacity"))))
    return found


def _amounts(quantities: Object) -> dict[str, int]:
    found = {}
    for name, quantity in quantities.items():
        with suppress(QuantityError):
            found[name] = Quantity.parse(str(quantity)).value()
    return found
