"""Metrics of the ResourceClaim controller, under the names of Kubernetes."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from dray.api.objects import Object, annotations_of, spec_of
from dray.api.resource_claims import EXTENDED_CLAIM_ANNOTATION, POD_CLAIM_ANNOTATION, allocation_of, uses_admin_access
from dray.client.cache import Cache
from dray.controllers.claims.owners import OwnerKind

_CREATES: Final = "dynamic_resource_allocation_resourceclaim_creates_total"
_CLAIMS: Final = "dynamic_resource_allocation_resource_claims"
_LABELS: Final = ("allocated", "admin_access", "source")


class Metrics:
    def __init__(self, claims: Cache) -> None:
        self._creates = Counter(
            _CREATES,
            "ResourceClaims that were created, or could not be",
            ("status", "admin_access", "owner_api_group", "owner_api_kind"),
            registry=None,
        )
        self._known: dict[tuple[str, ...], Counter] = {}
        self._claims = _Claims(claims)

    @contextmanager
    def in_registry(self, registry: CollectorRegistry) -> Iterator[None]:
        """Registers the metrics inside the context only: another controller may register them afterwards."""
        with ExitStack() as stack:
            for collector in (self._creates, self._claims):
                registry.register(collector)
                stack.callback(registry.unregister, collector)
            yield

    def created(self, kind: OwnerKind, claim: Object, *, success: bool) -> None:
        status = "success" if success else "failure"
        admin_access = _word(uses_admin_access(claim["spec"]))
        labels = (status, admin_access, kind.api_group, kind.kind)
        counter = self._known.get(labels)
        if counter is None:
            counter = self._known[labels] = self._creates.labels(*labels)
        counter.inc()


class _Claims(Collector):
    """Counts when it is asked, so that a claim costs nothing in between."""

    def __init__(self, claims: Cache) -> None:
        self._claims = claims

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(_CLAIMS, "ResourceClaims there are", labels=_LABELS)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = next(self.describe())
        for labels, count in Tally(map(_labels, self._claims)).items():
            family.add_metric(labels, count)
        yield family


def _labels(claim: Object) -> tuple[str, str, str]:
    return _word(allocation_of(claim) is not None), _word(uses_admin_access(spec_of(claim))), _source(claim)


def _source(claim: Object) -> str:
    annotations = annotations_of(claim)
    if POD_CLAIM_ANNOTATION in annotations:
        return "resource_claim_template"
    return "extended_resource" if annotations.get(EXTENDED_CLAIM_ANNOTATION) == "true" else ""


def _word(value: bool) -> str:
    return "true" if value else "false"
