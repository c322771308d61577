"""Amounts of resources: what may be asked for under which name, in containers, pods, nodes and quotas."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object, mapping
from dray.api.quantity import Quantity, QuantityError
from dray.api.validation.fields import Errors

NEGATIVE = "must be greater than or equal to 0"
NOT_INTEGRAL = "must be an integer"
_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
_OF_PODS = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"


def is_huge_pages(name: str) -> bool:
    return name.startswith(_HUGE_PAGES)


def requirements(resources: Object, path: str, *, whole_pod: bool = False) -> Errors:
    """`resources` of a container, or those of the pod as a whole."""
    limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
    if not limits and not requests:
        return
    check = _pod_name if whole_pod else container_name
    for member, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            yield from check(name, f"{path}.{member}[{name}]")
            yield from value(name, amount, f"{path}.{member}[{name}]")
    yield from _against_limits(limits, requests, path)
    stated = limits.keys() | requests.keys()
    if any(map(is_huge_pages, stated)) and not stated & set(_OF_PODS):
        yield errors.forbidden(path, "HugePages require cpu or memory")


def _against_limits(limits: Object, requests: Object, path: str) -> Errors:
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is None:
            if not overcommittable(name):
                yield errors.required(f"{path}.limits", f"limit must be set for {name}, which cannot be overcommitted")
        elif amount == limit:
            continue
        elif Quantity.parse(amount) > Quantity.parse(limit):
            yield errors.invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit of {limit}")
        elif Quantity.parse(amount) != Quantity.parse(limit) and not overcommittable(name):
            yield errors.invalid(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}")


def value(name: str, amount: str, path: str) -> Errors:
    quantity = Quantity.parse(amount)
    if quantity.sign() < 0:
        yield errors.invalid(path, amount, NEGATIVE)
    elif is_extended(name) and not quantity.is_integral():
        yield errors.invalid(path, amount, NOT_INTEGRAL)
    elif is_huge_pages(name) and not _divisible(name, quantity):
        yield errors.invalid(path, amount, f"{amount} is not positive integer multiple of {name}")


def _divisible(name: str, quantity: Quantity) -> bool:
    try:
        size = Quantity.parse(name.removeprefix(_HUGE_PAGES))
    except QuantityError:
        return True
    return quantity.sign() > 0 and size.sign() > 0 and quantity.nanos % size.nanos == 0


def container_name(name: str, path: str) -> Errors:
    if name in _OF_CONTAINERS:
        return
    if not names.is_label_key(name):
        yield errors.invalid(path, name, names.LABEL_KEY_DETAIL)
    elif "/" not in name:
        if not is_huge_pages(name):
            yield errors.invalid(path, name, "must be a standard resource for containers, or have a domain")
    elif "kubernetes.io/" not in name and not names.is_extended_resource(name):
        yield errors.invalid(path, name, "doesn't follow extended resource name standard")


def _pod_name(name: str, path: str) -> Errors:
    if name not in _OF_PODS and not is_huge_pages(name):
        yield errors.not_supported(path, name, [*_OF_PODS, _HUGE_PAGES])


def is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def overcommittable(name: str) -> bool:
    return ("/" not in name or "kubernetes.io/" in name) and not is_huge_pages(name)
