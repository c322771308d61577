"""The Lease of a Kubernetes component (kube-scheduler, kube-controller-manager): tells whether it is running.

A lease is being renewed if it changes while it is looked at. One that is valid by its own account is believed at once;
clocks may differ, so one that is not is watched for a moment.
"""

from __future__ import annotations

import asyncio
from typing import Final

from dray.api.objects import Object, spec_of
from dray.client.api import ApiClient
from dray.client.clock import SystemTime, TimeOfDay, moment
from dray.client.errors import NotFound
from dray.client.interface import GroupVersionResource

_LEASES: Final = GroupVersionResource("coordination.k8s.io", "v1", "leases")
_NAMESPACE: Final = "kube-system"
# It is renewed every two seconds, unless told otherwise.
_MOMENT: Final = 6.0
_LEASE_SECONDS: Final = 15.0


class ComponentLease:
    """`name` is that of the component and of its lease in kube-system."""

    def __init__(self, client: ApiClient, name: str, *, moment: float = _MOMENT, time: TimeOfDay | None = None) -> None:
        self.name = name
        self._client = client
        self._moment = moment
        self._time = time or SystemTime()
        self.lease: Object = {}
        """As it was seen last; empty if there is none."""

    @property
    def holder(self) -> str:
        return str(spec_of(self.lease).get("holderIdentity") or "")

    @property
    def title(self) -> str:
        return f"{self.name} is at work: {self.holder} renews the lease {_NAMESPACE}/{self.name}"

    async def is_at_work(self) -> bool:
        """Raises ClientError where the server does not say."""
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
