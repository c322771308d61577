"""Context of all operations of the server: the store, what is served, the rules, the clock and randomness."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from dray.api.caches import Cache
from dray.api.gates import ALL_GATES, FeatureGates
from dray.api.objects import Object
from dray.api.rules import ADMIN_ACCESS_LABEL, ExpressionChecker, Rules
from dray.api.service_addresses import DEFAULT_RANGE
from dray.cel.selector import Expressions
from dray.client.clock import timestamp
from dray.server import documents, quota_usage
from dray.server.authorization import Authorizer
from dray.server.health import Health
from dray.server.quota_usage import QuotaUsage
from dray.server.resource_registry import ResourceRegistry
from dray.server.resources import Resource, key_prefix
from dray.server.security.composition import OBSERVED, Security
from dray.server.security.stored_view import StoredView
from dray.server.webhook_client import WebhookClient
from dray.server.worker import Worker
from dray.store.interface import Store, StoreError

if TYPE_CHECKING:
    from dray.server.admission.dynamic.registry import DynamicAdmission
    from dray.server.admission.opaque_configs import OpaqueConfigs
    from dray.server.kubelets.client import KubeletClient


Observer = Callable[[Resource, str, Object | None], None]
"""Called with the resource, the key and the object."""

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_NAMESPACES = key_prefix("", "namespaces")
_ADMIN_ACCESS = ADMIN_ACCESS_LABEL.encode()


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _new_uid() -> str:
    return str(uuid4())


def _new_suffix() -> str:
    return "".join(random.choices(_SUFFIX_ALPHABET, k=5))


@dataclass(slots=True)
class Context:
    store: Store
    gates: FeatureGates = ALL_GATES
    security: Security = field(default=None)  # type: ignore[assignment] # made from the store if not given
    expressions: ExpressionChecker = field(default_factory=Expressions)
    # The range of the cluster IPs of Services.
    service_range: str = DEFAULT_RANGE
    clock: Callable[[], datetime] = _utc_now
    new_uid: Callable[[], str] = _new_uid
    new_suffix: Callable[[], str] = _new_suffix
    disabled_plugins: frozenset[str] = frozenset()
    """Names of disabled admission plug-ins, as Kubernetes has them."""
    opaque_configs: OpaqueConfigs | None = None
    """Checks the opaque configuration of claims; None for no check."""
    require_queue: bool = False
    """True if pods and Jobs of all namespaces must name a queue."""
    registry: ResourceRegistry = field(init=False)
    usage: QuotaUsage = field(init=False)
    worker: Worker = field(default_factory=Worker)
    webhooks: WebhookClient = field(init=False)
    health: Health = field(default_factory=Health)
    # Policies and webhooks; None in a context that serves no requests.
    dynamic: DynamicAdmission | None = None
    # Client for requests that only the agent of a node can answer; made when it is first needed.
    _kubelets: KubeletClient | None = None

    # Observers by the key prefix that they watch.
    _observers: dict[str, list[Observer]] = field(default_factory=dict)
    # By True if the namespace permits admin access.
    _rules: dict[bool, Rules] = field(default_factory=dict)
    # By name, with the decoded bytes. The creation of a pod reads its namespace three times.
    _namespaces: Cache[str, tuple[bytes, Object]] = field(default_factory=lambda: Cache(256, 4 << 20))

    def __post_init__(self) -> None:
        self.registry = ResourceRegistry(self.gates)
        self.webhooks = WebhookClient(self)
        self.health.watch_life(self._reading)
        self.health.watch(lambda: {"etcd": self.store.trouble})
        if self.security is None:
            self.security = Security.ephemeral(StoredView(self.store), plain=True)
        self.security.load(self.store)
        self.usage = QuotaUsage(self.store)
        for prefix in OBSERVED:
            self.observe(prefix, self.security.observe)
        for prefix in quota_usage.OBSERVED:
            self.observe(prefix, self.usage.observe)

    def _reading(self) -> dict[str, str]:
        """Reads the store for the health check `etcd`; returns the problem, or an empty text."""
        try:
            self.store.get(_NAMESPACES + "default")
        except StoreError as error:
            return {"etcd": str(error)}
        return {"etcd": ""}

    def observe(self, prefix: str, observer: Observer) -> None:
        """Calls the observer for every write of a kind: with the object, or None after its deletion."""
        self._observers.setdefault(prefix, []).append(observer)

    @property
    def kubelets(self) -> KubeletClient:
        if self._kubelets is None:
            from dray.server.kubelets.client import KubeletClient

            self._kubelets = KubeletClient(self.security.node_authority, self.security.serving_authority)
        return self._kubelets

    async def close(self) -> None:
        await self.webhooks.close()
        if self._kubelets is not None:
            await self._kubelets.close()
        self.worker.close()

    @property
    def authorizer(self) -> Authorizer:
        return self.security.authorizer

    def now(self) -> str:
        """Returns the present time in the format of objects."""
        return timestamp(self.clock())

    def namespace(self, name: str) -> Object | None:
        """Returns the stored Namespace. It is shared: callers must not change it."""
        record = self.store.get(_NAMESPACES + name)
        if record is None:
            return None
        known = self._namespaces.get(name)
        if known is None or known[0] is not record.value:
            known = record.value, documents.decode(record.value)
            self._namespaces.put(name, known, 8 * len(record.value))
        return known[1]

    def rules(self, namespace: str) -> Rules:
        permitted = self._permits_admin_access(namespace)
        rules = self._rules.get(permitted)
        if rules is None:
            rules = self._rules[permitted] = Rules(self.gates, self.expressions, admin_namespace=permitted)
        return rules

    def _permits_admin_access(self, namespace: str) -> bool:
        if not namespace:
            return False
        record = self.store.get(_NAMESPACES + namespace)
        if record is None or _ADMIN_ACCESS not in record.value:
            return False
        return (documents.metadata(record.value).labels or {}).get(ADMIN_ACCESS_LABEL) == "true"

    def notify(self, resource: Resource, key: str, obj: Object | None) -> None:
        """Calls the observers. Call it after every write with the stored object, after a deletion with None."""
        for observer in self._observers.get(resource.key_prefix, ()):
            observer(resource, key, obj)
