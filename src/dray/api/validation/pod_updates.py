"""Pod updates: images, the deadline, added tolerations and removed scheduling gates may change.

A pod that a gate holds back may also be told more closely where to run: labels are added to its nodeSelector, and
requirements to the terms of its node affinity. What a pod says of its queue and group may not change while it is on a
node: its quota would be free while it runs, as Kueue's own admission knows too.
"""

from __future__ import annotations

import copy
from typing import Any

from dray.api import errors, pod_queues
from dray.api.objects import Object, mapping, walk
from dray.api.pods import is_terminal
from dray.api.repeats import contains_all
from dray.api.rules import Rules
from dray.api.validation import pods
from dray.api.validation.fields import Errors

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ONLY_ADDITIONS = "only additions are allowed (no mutations or deletions)"


def validate_update(pod: Object, old: Object, rules: Rules) -> Errors:
    spec, before = pod["spec"], old["spec"]
    if before.get("schedulingGates"):
        yield from _selector(mapping(spec.get("nodeSelector")), mapping(before.get("nodeSelector")))
        yield from _affinity(_node_affinity(spec), _node_affinity(before))
    if spec != before:
        yield from pods.validate_spec(spec, "spec")
        yield from _deadline(spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    if before.get("nodeName") and not is_terminal(old):
        for path, said in pod_queues.changes(pod, old):
            detail = f"may not change while the pod is on a node, since its quota counts there (was {said!r})"
            yield errors.forbidden(path, detail)
    if _without_mutable(spec, before) != _without_mutable(before, before):
        yield errors.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, "
            "`spec.activeDeadlineSeconds`, `spec.terminationGracePeriodSeconds`, `spec.tolerations` (only additions) "
            "and `spec.schedulingGates` (only removals)",
        )


def _deadline(deadline: int | None, old: int | None) -> Errors:
    path = "spec.activeDeadlineSeconds"
    if old is not None and deadline is None:
        yield errors.invalid(path, None, f"must not update from a positive integer to nil value ({old})")
    elif old is not None and deadline is not None and deadline > old:
        yield errors.invalid(path, deadline, f"must be less than or equal to previous value ({old})")


def _without_mutable(spec: Object, old: Object) -> Object:
    fixed: Object = copy.deepcopy(spec)
    for member in ("initContainers", "containers", "ephemeralContainers"):
        for container in fixed.get(member) or ():
            container.pop("image", None)
    fixed.pop("activeDeadlineSeconds", None)
    if old.get("terminationGracePeriodSeconds", 0) < 0:
        fixed.pop("terminationGracePeriodSeconds", None)
    if _contains(spec.get("tolerations"), old.get("tolerations")):
        fixed.pop("tolerations", None)
    if _contains(old.get("schedulingGates"), spec.get("schedulingGates")):
        fixed.pop("schedulingGates", None)
    if old.get("schedulingGates"):
        fixed.pop("nodeSelector", None)
        others = {name: value for name, value in (fixed.pop("affinity", None) or {}).items() if name != "nodeAffinity"}
        fixed["affinity"] = others
    return fixed


def _selector(selector: Object, old: Object) -> Errors:
    if not old.items() <= selector.items():
        yield errors.invalid("spec.nodeSelector", selector, _ONLY_ADDITIONS)


def _affinity(affinity: Object, old: Object) -> Errors:
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    terms, before = _terms(affinity), _terms(old)
    if not before:
        return
    if len(terms) != len(before):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield errors.invalid(path, terms, detail)
        return
    for index, (term, old_term) in enumerate(zip(terms, before, strict=True)):
        if not _only_adds(term, old_term):
            yield errors.invalid(f"{path}[{index}]", term, _ONLY_ADDITIONS)


def _only_adds(term: Object, old: Object) -> bool:
    """A term that says nothing selects nothing, and whatever is added to it would make it select more."""
    members = ("matchExpressions", "matchFields")
    if not any(old.get(member) for member in members):
        return not any(term.get(member) for member in members)
    return all(_contains(term.get(member), old.get(member)) for member in members)


def _node_affinity(spec: Object) -> Object:
    return walk(spec, "affinity", "nodeAffinity")


def _terms(affinity: Object) -> list[Object]:
    return mapping(affinity.get(_REQUIRED)).get("nodeSelectorTerms") or []


def _contains(larger: list[Any] | None, smaller: list[Any] | None) -> bool:
    return contains_all(larger or (), smaller or ())
