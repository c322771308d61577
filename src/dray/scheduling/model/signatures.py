"""Pod signatures: pods with the same signature have the same requirements, which are compiled once.

The signature contains all fields of a pod that scheduling reads, and what plugins add. It contains labels and namespace
only for pods with affinity or spread terms, since these refer to the pod's own labels and namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from dray.api import pod_requests as requests
from dray.api.caches import Cache
from dray.api.objects import Object, bounded, mapping, mappings, strings, text
from dray.api.pod_requests import is_sidecar
from dray.api.pods import containers_of
from dray.api.quantity import INT32_MAX
from dray.scheduling.model.node import EVERYWHERE
from dray.scheduling.model.node_terms import NodeTerms
from dray.scheduling.model.pod import Port, Requirements
from dray.scheduling.model.pod_terms import PodTerms
from dray.scheduling.model.tolerations import Tolerations

_MOST: Final = 4096
# Size of the signatures; the compiled requirements are several times as large.
_MOST_BYTES: Final = 16 << 20
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


Sign = Callable[[Object], Hashable]


class Signatures:
    """Requirements of the signatures that were used last."""

    def __init__(self, queue_labels: frozenset[str] = frozenset(), most: int = _MOST) -> None:
        """`queue_labels` are labels that name queues; an empty one if any pod may be in a queue."""
        self._known: Cache[tuple[Hashable, ...], Requirements] = Cache(most, _MOST_BYTES)
        self._encode = msgspec.json.Encoder().encode
        self._signers: Sequence[Sign] = ()
        self._queue_labels = queue_labels

    def sign_with(self, signers: Sequence[Sign]) -> None:
        """Adds the values of functions of plugins to all signatures."""
        self._signers = signers

    def joins(self, labels: Collection[str]) -> bool:
        """Whether a pod with the labels may be in a queue."""
        return not self._queue_labels.isdisjoint(labels) or "" in self._queue_labels

    def signs(self, document: Object) -> tuple[Hashable, ...]:
        """The values that plugins add to the signature of a pod."""
        return tuple([sign(document) for sign in self._signers])

    def requirements(self, document: Object) -> Requirements:
        """Returns the requirements of a pod; the same object for pods with the same signature while it is cached."""
        text = self._encode(_relevant(document))
        signs = self.signs(document)
        known = self._known.get((text, *signs))
        if known is None:
            known = compiled(document)
            if signs:
                known = replace(known, signs=signs)
            self._known.put((text, *signs), known, len(text))
        return known


def _relevant(document: Object) -> Any:
    spec = document.get("spec") or {}
    try:
        get = spec.get
        affinity, spread = get("affinity"), get("topologySpreadConstraints")
        has_pod_terms = spread or (affinity and (affinity.get("podAffinity") or affinity.get("podAntiAffinity")))
        metadata = document["metadata"] if has_pod_terms else {}
        return (
            [(c.get("image"), c.get("resources"), c.get("ports")) for c in get("containers") or ()],
            [
                (c.get("image"), c.get("resources"), c.get("ports"), c.get("restartPolicy"))
                for c in get("initContainers") or ()
            ],
            get("overhead"),
            get("resources"),
            get("nodeSelector"),
            affinity,
            get("tolerations"),
            spread,
            get("hostNetwork"),
            metadata.get("namespace"),
            metadata.get("labels"),
        )
    except (AttributeError, KeyError, TypeError):
        # A field has an unexpected type: compare the whole pod.
        return spec, document.get("metadata")


def compiled(document: Object) -> Requirements:
    """Compiles the requirements of a pod; fields that are missing or have the wrong type are ignored."""
    spec, metadata = mapping(document.get("spec")), mapping(document.get("metadata"))
    affinity = mapping(spec.get("affinity"))
    near, apart = mapping(affinity.get("podAffinity")), mapping(affinity.get("podAntiAffinity"))
    own = _TermDefaults(metadata)
    required = mapping(affinity.get("nodeAffinity")).get(_REQUIRED)
    preferred = mappings(mapping(affinity.get("nodeAffinity")).get(_PREFERRED))
    preferred_pods = (*own.weighted(near, 1), *own.weighted(apart, -1))
    amounts = requests.requests(spec)
    return Requirements(
        requests=amounts,
        extended=any("/" in name for name in amounts),
        scoring=requests.scoring(spec),
        ports=frozenset(_ports(spec)),
        tolerations=Tolerations(mappings(spec.get("tolerations"))),
        node_selector=mapping(spec.get("nodeSelector")),
        node_affinity=NodeTerms(mappings(required.get("nodeSelectorTerms"))) if isinstance(required, dict) else None,
        preferred_node_affinity=NodeTerms(mapping(term.get("preference")) for term in preferred),
        preferred_weights=tuple(bounded(term.get("weight"), 0, INT32_MAX) for term in preferred),
        images=tuple(_with_tag(c["image"]) for c in containers_of(spec) if c.get("image")),
        pod_terms=PodTerms.of(own.terms(near), own.terms(apart), preferred_pods, own.constraints(spec)),
    )


def _ports(spec: Object) -> Iterable[Port]:
    containers = [c for c in mappings(spec.get("initContainers")) if is_sidecar(c)]
    for container in (*mappings(spec.get("containers")), *containers):
        for port in mappings(container.get("ports")):
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") is True else 0)
            if isinstance(number, int) and number > 0:
                yield str(port.get("protocol") or "TCP"), str(port.get("hostIP") or EVERYWHERE), number


def _with_tag(image: object) -> str:
    name = str(image)
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


class _TermDefaults:
    """Fills in what affinity terms and spread constraints take from the pod's own labels and namespace."""

    def __init__(self, metadata: Object) -> None:
        self._namespace = metadata.get("namespace") or ""
        self._labels: Mapping[str, str] = mapping(metadata.get("labels"))

    def terms(self, rules: Object) -> tuple[Object, ...]:
        return tuple(self._term(term) for term in mappings(rules.get(_REQUIRED)))

    def weighted(self, rules: Object, sign: int) -> list[tuple[int, Object]]:
        return [
            (sign * weight, self._term(mapping(weighted.get("podAffinityTerm"))))
            for weighted in mappings(rules.get(_PREFERRED))
            if (weight := bounded(weighted.get("weight"), 0, INT32_MAX))
        ]

    def constraints(self, spec: Object) -> tuple[Object, ...]:
        """The spread constraints; the last one of several with the same key and effect, which API servers reject."""
        unique = {
            (text(constraint.get("topologyKey")), text(constraint.get("whenUnsatisfiable"))): constraint
            for constraint in mappings(spec.get("topologySpreadConstraints"))
        }
        return tuple(
            {**constraint, "labelSelector": self._narrowed(constraint), "namespaces": [self._namespace]}
            for constraint in unique.values()
        )

    def _term(self, term: Object) -> Object:
        filled = {**term, "labelSelector": self._narrowed(term)}
        if not term.get("namespaces") and term.get("namespaceSelector") is None:
            filled["namespaces"] = [self._namespace]
        return filled

    def _narrowed(self, term: Object) -> Object | None:
        """The label selector with matchLabelKeys and mismatchLabelKeys merged in, unless the API server did it."""
        selector = term.get("labelSelector")
        if not isinstance(selector, dict):
            return None
        added = [
            {"key": key, "operator": operator, "values": [self._labels[key]]}
            for member, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
            for key in strings(term.get(member))
            if key in self._labels
        ]
        written = mappings(selector.get("matchExpressions"))
        added = [expression for expression in added if expression not in written]
        return {**selector, "matchExpressions": [*written, *added]} if added else selector
