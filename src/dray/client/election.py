"""Leader election by Lease, as client-go does it: of the processes that name the same lease, one works.

A lease that another process holds is taken over once it has not changed for its duration. That time is measured here,
from when the last change was observed: clocks of other machines do not matter. A leader that cannot renew stops before
another can start, because its deadline counts from when the last renewal was sent and is shorter than the lease. A
leader that shuts down releases the lease, and a successor takes it at once.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from dray.api.objects import Object, spec_of
from dray.api.quantity import INT32_MAX
from dray.client.api import ApiClient
from dray.client.clock import SystemTime, TimeOfDay, micro_timestamp, moment
from dray.client.errors import AlreadyExists, ApiError, ClientError, Conflict, NotFound
from dray.client.interface import GroupVersionResource
from dray.client.log_throttling import ThrottledLog, cause_of

_LEASES: Final = GroupVersionResource("coordination.k8s.io", "v1", "leases")
# Share of the waiting time that is random, so that candidates do not come all at once.
_JITTER: Final = 0.2
_logger = logging.getLogger(__name__)
_NAMESPACE: Final = "kube-system"
# Time to watch a Lease, which components renew every two seconds by default.
_MOMENT: Final = 6.0
_LEASE_SECONDS: Final = 15.0
_LONGEST_LEASE: Final = 600.0


class LeadershipLost(Exception):
    """Raised if the lease could not be renewed in time, or has another holder."""


class LeaderElection:
    """Elects a leader; `monotonic` gives seconds from any start, `time` is only written into the lease."""

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        name: str,
        identity: str,
        lease_seconds: float = 15,
        renew_deadline: float = 10,
        retry_period: float = 2,
        time: TimeOfDay | None = None,
        *,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        if not lease_seconds > renew_deadline > retry_period > 0:
            raise ValueError("the lease must be longer than the renew deadline, and that than the retry period")
        self._client = client
        self._namespace, self._name = namespace, name
        self._identity = identity
        self._lease_seconds = lease_seconds
        self._renew_deadline = renew_deadline
        self._retry_period = retry_period
        self._time = time or SystemTime()
        self._monotonic = monotonic or asyncio.get_running_loop().time
        self._lease: Object | None = None
        """The lease as last seen; `_seen` is the time of that."""
        self._seen = 0.0
        self._throttled = ThrottledLog(_logger)
        self._renewed = 0.0
        """Time at which the last successful renewal was sent."""

    @property
    def leader(self) -> str:
        """Returns the identity of the leader as last seen; empty if there is none."""
        return _holder(self._lease)

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Waits for the lease and runs the work while it is held; returns or raises what the work does.

        Raises LeadershipLost after it cancelled the work because the lease was lost. If cancelled itself, it cancels
        the work, waits for its end, and releases the lease.
        """
        await self._acquire()
        _logger.info("%s leads %s/%s", self._identity, self._namespace, self._name)
        try:
            await self._work(work)
        except LeadershipLost:
            raise
        except BaseException:
            await self._release()
            raise
        await self._release()

    async def _acquire(self) -> None:
        while True:
            try:
                if await self._try():
                    return
            except ClientError as error:
                # Another candidate was faster.
                if not isinstance(error, Conflict | AlreadyExists):
                    self._complain("get", error)
            await asyncio.sleep(self._retry_period * (1 + _JITTER * random.random()))

    async def _work(self, work: Callable[[], Awaitable[None]]) -> None:
        working = asyncio.ensure_future(work())
        renewing = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # The lease is kept until the work has really ended.
            ended = working.done()
            await _cancelled(working)
            lost = renewing.done()
            await _cancelled(renewing)
        if ended:
            working.result()
        elif lost:
            raise LeadershipLost(f"the lease {self._namespace}/{self._name} is lost") from renewing.exception()

    async def _renew(self) -> None:
        """Renews the lease until that fails for too long; raises LeadershipLost."""
        failed = False
        while True:
            # After a failure, retry sooner: the deadline is approaching.
            await asyncio.sleep(self._retry_period / 4 if failed else self._retry_period)
            past = self._monotonic() - self._renewed
            late = f"not renewed within {self._renew_deadline:g} s"
            left = self._renew_deadline - past
            if left <= 0 and not failed:
                # The process was suspended and could not even try. Before the lease ends, no other candidate can take
                # it.
                left = self._lease_seconds - self._retry_period - past
            if left <= 0:
                raise LeadershipLost(late)
            try:
                # The client's retries must end at the deadline.
                async with asyncio.timeout(left):
                    if not await self._try(held=True):
                        raise LeadershipLost(f"held by {self.leader}")
                failed = False
            except TimeoutError as error:
                raise LeadershipLost(late) from error
            except ClientError as error:
                failed = True
                self._complain("renew", error)

    def _complain(self, verb: str, error: ClientError) -> None:
        self._throttled.warning(
            (verb, cause_of(error)), "cannot %s the lease %s/%s: %s", verb, self._namespace, self._name, error
        )

    async def _try(self, *, held: bool = False) -> bool:
        """Takes or renews the lease; returns False if it has another holder. Raises ClientError if that is unknown.

        A former holder does not take it back from another holder, even if that one is late: the lease is lost.
        """
        if held and self._lease is not None:
            try:
                await self._put(self._lease)
            except ApiError as error:
                # Changed or deleted meanwhile, which servers report in several ways: read it again.
                if error.is_too_many_requests or error.is_server_fault:
                    raise
            else:
                return True
        try:
            lease = await self._client.get(_LEASES, self._name, namespace=self._namespace)
        except NotFound:
            await self._create()
            return True
        self._observe(lease)
        if self.leader not in ("", self._identity) and (held or self._is_valid(lease)):
            return False
        await self._put(lease)
        return True

    async def _create(self) -> None:
        sent = self._monotonic()
        metadata = {"namespace": self._namespace, "name": self._name}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        self._observe(await self._client.create(_LEASES, {**body, "spec": self._spec({})}))
        self._renewed = sent

    async def _put(self, lease: Object) -> None:
        sent = self._monotonic()
        self._observe(await self._client.update(_LEASES, {**lease, "spec": self._spec(spec_of(lease))}))
        self._renewed = sent

    def _spec(self, before: Object) -> Object:
        now = micro_timestamp(self._time.now())
        spec: Object = {
            **before,
            "holderIdentity": self._identity,
            # The API takes whole seconds, and at least one.
            "leaseDurationSeconds": max(1, math.ceil(self._lease_seconds)),
            "renewTime": now,
        }
        if before.get("holderIdentity") != self._identity or not before.get("acquireTime"):
            spec["acquireTime"] = now
        transitions = before.get("leaseTransitions")
        transitions = max(0, transitions) if isinstance(transitions, int) else 0
        if before and before.get("holderIdentity") != self._identity:
            transitions += 1
        # The API has 32 bits for the counter; a lease with a full counter must stay usable.
        spec["leaseTransitions"] = min(transitions, INT32_MAX)
        return spec

    def _observe(self, lease: Object) -> None:
        if self._lease is None or self._lease.get("spec") != lease.get("spec"):
            self._seen = self._monotonic()
        self._lease = lease

    def _is_valid(self, lease: Object) -> bool:
        """Returns True if the holder of the lease may still be working, as far as is known here."""
        said = spec_of(lease).get("leaseDurationSeconds")
        seconds = said if isinstance(said, int | float) and said > 0 else self._lease_seconds
        # A longer duration in the lease must not block all others for years.
        return self._monotonic() < self._seen + min(float(seconds), max(_LONGEST_LEASE, self._lease_seconds))

    async def _release(self) -> None:
        """Releases the lease if that works; otherwise it expires."""
        with suppress(ClientError, TimeoutError):
            async with asyncio.timeout(self._renew_deadline):
                lease = await self._client.get(_LEASES, self._name, namespace=self._namespace)
                self._observe(lease)
                if self.leader == self._identity:
                    now = micro_timestamp(self._time.now())
                    freed: dict[str, Any] = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now}
                    self._observe(await self._client.update(_LEASES, {**lease, "spec": {**lease["spec"], **freed}}))


def _holder(lease: Object | None) -> str:
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")


async def _cancelled(task: asyncio.Future[None]) -> None:
    """Cancels a task and waits until it has ended; ignores its result."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        # Mark the exception as retrieved.
        task.exception()


class ComponentLease:
    """The Lease of a Kubernetes component, `name` in kube-system: shows whether the component runs.

    A lease counts as renewed if it changes while it is watched. A lease that is valid by its own times is trusted at
    once; clocks may differ, so another one is watched for a moment.
    """

    def __init__(self, client: ApiClient, name: str, *, moment: float = _MOMENT, time: TimeOfDay | None = None) -> None:
        self.name = name
        self._client = client
        self._moment = moment
        self._time = time or SystemTime()
        self.lease: Object = {}
        """The lease as last seen; empty if there is none."""

    @property
    def holder(self) -> str:
        return str(spec_of(self.lease).get("holderIdentity") or "")

    @property
    def title(self) -> str:
        return f"{self.name} is running: {self.holder} renews the lease {_NAMESPACE}/{self.name}"

    async def is_at_work(self) -> bool:
        """Returns True if the component runs. Raises ClientError if the lease cannot be read."""
        before = await self._read()
        if not self.holder:
            return False
        if self._is_fresh():
            return True
        await asyncio.sleep(self._moment)
        after = await self._read()
        return bool(self.holder) and after != before

    async def _read(self) -> object:
        try:
            self.lease = await self._client.get(_LEASES, self.name, namespace=_NAMESPACE)
        except NotFound:
            self.lease = {}
        return spec_of(self.lease).get("renewTime")

    def _is_fresh(self) -> bool:
        spec = spec_of(self.lease)
        try:
            age = (self._time.now() - moment(str(spec.get("renewTime")))).total_seconds()
        except (ValueError, TypeError):
            return False
        return abs(age) < float(spec.get("leaseDurationSeconds") or _LEASE_SECONDS)
