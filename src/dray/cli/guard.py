"""Guard against a second scheduler or controller manager: refuses to run beside that of Kubernetes without --force."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from dray.client.api import ApiClient
    from dray.client.events import EventRecorder

_PERIOD: Final = 60.0
# What kube-controller-manager calls the controllers that it has too.
_ITS_NAMES: Final = {
    "resourceclaim": "resourceclaim-controller",
    "device-taint-eviction": "device-taint-eviction-controller",
    "resource-pool-status": "resourcepoolstatusrequest-controller",
    "garbage-collector": "garbage-collector-controller",
    "pod-garbage-collector": "pod-garbage-collector-controller",
    "namespace": "namespace-controller",
    "serviceaccount": "serviceaccount-controller",
    "serviceaccount-token": "serviceaccount-token-controller",
    "root-ca-cert-publisher": "root-ca-certificate-publisher-controller",
    "node-lifecycle": "node-lifecycle-controller",
    "resourcequota": "resourcequota-controller",
    "disruption": "disruption-controller",
    "deployment": "deployment-controller",
    "replicaset": "replicaset-controller",
    "replicationcontroller": "replicationcontroller-controller",
    "job": "job-controller",
    "cronjob": "cronjob-controller",
    "daemonset": "daemonset-controller",
    "statefulset": "statefulset-controller",
    "podgroup-protection": "podgroup-protection-controller",
    "certificatesigningrequest-approving": "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner": "certificatesigningrequest-cleaner-controller",
    "token-cleaner": "token-cleaner-controller",
    "persistentvolume-binder": "persistentvolume-binder-controller",
    "ephemeral-volume": "ephemeral-volume-controller",
    "persistentvolumeclaim-protection": "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection": "persistentvolume-protection-controller",
    "endpoints": "endpoints-controller",
    "endpointslice": "endpointslice-controller",
    "endpointslicemirroring": "endpointslicemirroring-controller",
    "storage-version-migrator": "storage-version-migrator-controller",
}
_logger = logging.getLogger("dray")

forcing = click.option(
    "--force", is_flag=True, help="Start even if Kubernetes runs a component that does the same work."
)


class AtWork(Exception):
    """Another component does the same work."""


class Guard:
    """`component` of Kubernetes does the same; `advice` is what to do about it."""

    def __init__(self, component: str, advice: str, *, insists: bool = False, period: float = _PERIOD) -> None:
        self._component = component
        self._advice = advice
        self._insists = insists
        self._period = period

    async def check(self, client: ApiClient) -> None:
        """Raises AtWork where it is at work."""
        from dray.client.election import ComponentLease
        from dray.client.errors import ApiError

        if self._insists:
            return
        component = ComponentLease(client, self._component)
        try:
            found = await component.is_at_work()
        except ApiError as error:
            _logger.warning("cannot tell whether %s is running: %s", self._component, error)
            return
        if found:
            raise AtWork(f"{component.title}. {self._advice}, or use --force.")

    async def watch(self, client: ApiClient, events: EventRecorder) -> None:
        """Checks periodically, until it is cancelled, whether the other component works; logs it and sends an event."""
        from dray.client.election import ComponentLease
        from dray.client.errors import ClientError

        if self._insists:
            return
        component, told = ComponentLease(client, self._component), False
        while True:
            await asyncio.sleep(self._period)
            try:
                found = await component.is_at_work()
            except ClientError:
                continue
            if found and not told:
                message = f"{component.title}. {self._advice}."
                _logger.warning("%s", message)
                about = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **component.lease}
                events.warning(about, "AlsoAtWork", message)
            told = found


def of_scheduler(name: str, lease: str, *, force: bool) -> Guard | None:
    if name != "default-scheduler" or lease == "kube-system/kube-scheduler":
        return None
    advice = f"Both would place the pods of {name}: choose another --scheduler-name, or stop it"
    return Guard("kube-scheduler", advice, insists=force)


def of_controllers(names: Iterable[str], lease: str, *, force: bool) -> Guard | None:
    shared = [name for name in names if name in _ITS_NAMES]
    if not shared or lease == "kube-system/kube-controller-manager":
        return None
    switches = ",".join(f"-{_ITS_NAMES[name]}" for name in shared)
    advice = (
        f"It also runs {', '.join(shared)}: leave these out of --controllers, "
        f"or start it with --controllers=*,{switches}"
    )
    return Guard("kube-controller-manager", advice, insists=force)
