"""Pod affinity, anti-affinity and topology spread constraints."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object
from dray.api.repeats import repeats
from dray.api.validation import fields, metadata
from dray.api.validation.fields import Errors

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_UNSATISFIABLE = ["DoNotSchedule", "ScheduleAnyway"]
_POLICIES = ["Honor", "Ignore"]
_POSITIVE = "must be greater than 0"


def validate(affinity: Object, path: str) -> Errors:
    """`podAffinity` or `podAntiAffinity` of spec.affinity."""
    for index, term in enumerate(affinity.get(_REQUIRED) or []):
        yield from _term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.get(_PREFERRED) or []):
        at = f"{path}.{_PREFERRED}[{index}]"
        yield from fields.weight(weighted["weight"], f"{at}.weight")
        yield from _term(weighted["podAffinityTerm"], f"{at}.podAffinityTerm")


def _term(term: Object, path: str) -> Errors:
    for member in ("labelSelector", "namespaceSelector"):
        if term.get(member) is not None:
            yield from metadata.label_selector(term[member], f"{path}.{member}")
    for namespace in term.get("namespaces") or []:
        if not names.is_label(namespace):
            yield errors.invalid(f"{path}.namespace", namespace, names.LABEL_DETAIL)
    yield from _label_keys(term, path)
    key = term["topologyKey"]
    if not key:
        yield errors.required(f"{path}.topologyKey", "can not be empty")
    if not names.is_label_key(key):
        yield errors.invalid(f"{path}.topologyKey", key, names.LABEL_KEY_DETAIL)


def _label_keys(holder: Object, path: str) -> Errors:
    """matchLabelKeys and mismatchLabelKeys add to a label selector, so they need one."""
    match, mismatch = holder.get("matchLabelKeys") or [], holder.get("mismatchLabelKeys") or []
    for member, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and holder.get("labelSelector") is None:
            yield errors.forbidden(f"{path}.{member}", "must not be specified when labelSelector is not set")
            continue
        for index, key in enumerate(keys):
            if not names.is_label_key(key):
                yield errors.invalid(f"{path}.{member}[{index}]", key, names.LABEL_KEY_DETAIL)
    for index, key in enumerate(match):
        if key in mismatch:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield errors.invalid(f"{path}.matchLabelKeys[{index}]", key, detail)


def validate_spread(constraints: list[Object], path: str) -> Errors:
    """Validates spec.topologySpreadConstraints."""
    repeated = repeats((spread["topologyKey"], spread["whenUnsatisfiable"]) for spread in constraints)
    for index, (constraint, is_repeated) in enumerate(zip(constraints, repeated, strict=True)):
        at = f"{path}[{index}]"
        key, action = constraint["topologyKey"], constraint["whenUnsatisfiable"]
        if constraint["maxSkew"] <= 0:
            yield errors.invalid(f"{at}.maxSkew", constraint["maxSkew"], _POSITIVE)
        if not key:
            yield errors.required(f"{at}.topologyKey", "can not be empty")
        if action not in _UNSATISFIABLE:
            yield errors.not_supported(f"{at}.whenUnsatisfiable", action, _UNSATISFIABLE)
        if is_repeated:
            yield errors.duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        yield from _spread_options(constraint, at)


def _spread_options(constraint: Object, path: str) -> Errors:
    domains, action = constraint.get("minDomains"), constraint["whenUnsatisfiable"]
    if domains is not None:
        if domains <= 0:
            yield errors.invalid(f"{path}.minDomains", domains, _POSITIVE)
        if action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            yield errors.invalid(f"{path}.minDomains", domains, detail)
    for member in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = constraint.get(member)
        if policy is not None and policy not in _POLICIES:
            yield errors.not_supported(f"{path}.{member}", policy, _POLICIES)
    yield from _label_keys(constraint, path)
    if constraint.get("labelSelector") is not None:
        yield from metadata.label_selector(constraint["labelSelector"], f"{path}.labelSelector")
