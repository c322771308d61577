"""KindOwners: whether dray acts on kinds of a queue system, or leaves them to that system.

A system is at work where a ValidatingWebhookConfiguration names its API group, which these systems install for their
queues. Definitions of their kinds alone make nobody act on them, so dray does. Only administrators write webhook
configurations: a label on a pod or Deployment could be used by anybody to switch quota off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from dray.api.objects import Object, key_of, mappings, strings
from dray.client.api import ApiClient
from dray.client.discovery import served_version, serves
from dray.client.foreign_kinds import is_own as is_served_by_dray
from dray.client.interface import GroupVersionResource, Resource
from dray.scheduling.core.options import QueueMode
from dray.scheduling_loop.optional_kinds import QUEUE_KINDS
from dray.scheduling_loop.queue_systems.optional_kind import OptionalKind
from dray.scheduling_loop.queue_systems.systems import SYSTEMS

WEBHOOKS: Final = GroupVersionResource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
_TITLES: Final = {each.api_group: each.title for each in SYSTEMS}
"""Names of the queue systems, by the API group of their queues."""
OFF: Final = "quota is not enforced: dray scheduler runs with --queues off"

Configurations = Callable[[], Awaitable[Iterable[Object]]]
"""Gives the ValidatingWebhookConfigurations of the cluster; raises ClientError."""


@dataclass(frozen=True, slots=True)
class Verdict:
    acts: bool
    why_not: str = ""
    """The reason why dray does not act on the kind. Empty if dray acts, or if no kind that needs it is served."""


class KindOwners:
    def __init__(self, client: ApiClient, mode: QueueMode, configurations: Configurations) -> None:
        self._client = client
        self._mode = mode
        self._configurations = configurations

    async def verdict(self, name: str, kind: OptionalKind) -> Verdict:
        """Whether dray acts on a kind, which is served. Raises ClientError."""
        if kind.beside is not None and not await serves(self._client, kind.beside):
            return Verdict(acts=False)
        if not kind.owned:
            return Verdict(acts=True)
        if self._mode is QueueMode.OFF and name in QUEUE_KINDS:
            return Verdict(acts=False, why_not=OFF)
        served = [owner for owner in kind.owned if await serves(self._client, owner)]
        if not served or self._mode is QueueMode.ON:
            return Verdict(acts=bool(served))
        configurations = list(await self._configurations())
        reasons = [at_work(configurations, owner.group) for owner in served]
        return Verdict(acts="" in reasons, why_not="" if "" in reasons else reasons[0])

    async def writes_status(self, kind: OptionalKind) -> bool:
        """Whether dray writes the status of the kind's objects, because no other system does. Raises ClientError."""
        if kind.resource is None:
            return False
        if kind.group not in _TITLES:
            return await is_served_by_dray(self._client, kind.resource)
        return self._mode is QueueMode.ON or not at_work(await self._configurations(), kind.group)

    async def readable(self, name: str, kind: OptionalKind) -> tuple[Resource | None, str]:
        """The version in which the kind is read, None where it is not; and why not, where somebody should know."""
        found: Resource | None = kind.resource
        if found is None:
            found = await served_version(self._client, kind.group, kind.plural)
        elif not await serves(self._client, found):
            return None, ""
        if found is None:
            return None, ""
        verdict = await self.verdict(name, kind)
        return (found if verdict.acts else None), verdict.why_not


def at_work(configurations: Iterable[Object], group: str) -> str:
    """Says that another system acts on the kinds of an API group, and by what that shows; empty if none does."""
    for configuration in configurations:
        rules = (rule for webhook in mappings(configuration.get("webhooks")) for rule in mappings(webhook.get("rules")))
        if any(group in strings(rule.get("apiGroups")) for rule in rules):
            system = _TITLES.get(group, group)
            webhook = f"ValidatingWebhookConfiguration {key_of(configuration)[1]}"
            return (
                f"quota is left to {system}, which is installed ({webhook}); to enforce it with dray, use --queues on"
            )
    return ""
