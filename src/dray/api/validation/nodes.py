"""Node: taints, ranges for pods, and amounts that are no less than nothing."""

from __future__ import annotations

from dray.api import errors
from dray.api.objects import Object, mapping
from dray.api.rules import Rules
from dray.api.validation import addresses, amounts, tolerations
from dray.api.validation.fields import Errors


def validate(node: Object, rules: Rules) -> Errors:
    # The path that Kubernetes names for the taints of a new node.
    yield from tolerations.validate_taints(node["spec"].get("taints") or [], "metadata.taints")
    yield from _pod_ranges(node["spec"].get("podCIDRs") or [])
    yield from _status(node["status"])


def validate_update(node: Object, old: Object, rules: Rules) -> Errors:
    yield from _fixed(node["spec"], old["spec"])
    taints = node["spec"].get("taints") or []
    if taints != (old["spec"].get("taints") or []):
        yield from tolerations.validate_taints(taints, "spec.taints")


def _pod_ranges(ranges: list[str]) -> Errors:
    for index, each in enumerate(ranges):
        yield from addresses.cidr(each, f"spec.podCIDRs[{index}]")
    families = [":" in range_ for range_ in ranges]
    if len(families) != len(set(families)):
        yield errors.invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family")


def _fixed(spec: Object, old: Object) -> Errors:
    """Validates fields that cannot change once they are set."""
    ranges = old.get("podCIDRs") or []
    if ranges and spec.get("podCIDRs") != ranges:
        yield errors.forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
    elif not ranges:
        yield from _pod_ranges(spec.get("podCIDRs") or [])
    provider = old.get("providerID")
    if provider and spec.get("providerID") != provider:
        done = "modified" if spec.get("providerID") else "cleared"
        yield errors.invalid("spec.providerID", None, f"field cannot be {done} once set")


def validate_status(node: Object, old: Object, rules: Rules) -> Errors:
    yield from _status(node["status"])


def _status(status: Object) -> Errors:
    for member in ("capacity", "allocatable"):
        for name, amount in mapping(status.get(member)).items():
            for problem in amounts.value(name, amount, f"status.{member}.{name}"):
                # Pages are counted as the node has them.
                if not amounts.is_huge_pages(name) or problem.detail == amounts.NEGATIVE:
                    yield problem
    seen = set()
    for index, address in enumerate(status.get("addresses") or []):
        identity = (address.get("type"), address.get("address"))
        if identity in seen:
            yield errors.duplicate(f"status.addresses[{index}]", address)
        seen.add(identity)
