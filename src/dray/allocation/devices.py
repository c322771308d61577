"""Devices as slices publish them, read once: attributes as sets of values, capacities, taints, counters.

An attribute is a set of (kind, value) pairs, a scalar being a set of one, so that "equal" and "distinct" are the
same question for both and values of different kinds never meet. A capacity is its value and its policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dray.allocation import taints
from dray.api.objects import Object, mapping
from dray.api.quantity import Quantity
from dray.api.semver import is_semver

DeviceID = tuple[str, str, str]
"""(driver, pool, device name)."""
Values = frozenset[tuple[str, Any]]

# In the order in which Kubernetes looks for a value.
_LISTS: Final = (("ints", "int"), ("bools", "bool"), ("strings", "string"), ("versions", "version"))
_SCALARS: Final = ("int", "bool", "string", "version")
_KNOWN: Final = (*_SCALARS, *(member for member, _ in _LISTS))
NO_VALUE: Final[Values] = frozenset()


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    default: Quantity | None
    minimum: Quantity | None
    maximum: Quantity | None
    step: Quantity | None
    ranged: bool
    values: tuple[Quantity, ...]


@dataclass(frozen=True, slots=True)
class Capacity:
    value: Quantity
    policy: RequestPolicy | None


@dataclass(frozen=True, slots=True)
class Consumption:
    """The amounts that a device draws from one counter set, in nanos, and its compatibility groups."""

    counter_set: str
    counters: Mapping[str, int]
    groups: frozenset[str]


class Device:
    """One published device. `taints` are the effective ones, rules included.

    A device is `sound` where every attribute has a value that can be read; on others Kubernetes fails every selector.
    """

    __slots__ = (
        "_attributes",
        "_capacity",
        "_shape",
        "consumes",
        "driver",
        "name",
        "pool",
        "shareable",
        "sound",
        "spec",
        "taints",
    )

    def __init__(self, driver: str, pool: str, spec: Object, rules: Iterable[Object] = ()) -> None:
        self.driver, self.pool, self.spec = driver, pool, spec
        self.name: str = spec["name"]
        self.shareable = bool(spec.get("allowMultipleAllocations"))
        self.consumes = _consumptions(spec.get("consumesCounters") or ())
        self.sound = all(map(_is_sound, mapping(spec.get("attributes")).values()))
        self._attributes: dict[str, Values] = {}
        self._capacity: dict[str, Capacity] | None = None
        self._shape: tuple[Any, ...] | None = None
        self.taints: tuple[Object, ...] = ()
        self.apply_rules(rules)

    @property
    def id(self) -> DeviceID:
        return self.driver, self.pool, self.name

    def apply_rules(self, rules: Iterable[Object]) -> None:
        added = [
            rule["spec"]["taint"] for rule in rules if taints.rule_applies(rule, self.driver, self.pool, self.name)
        ]
        self.taints = taints.effective([*(self.spec.get("taints") or ()), *added])

    def published(self, name: str) -> Object | None:
        """Returns the attribute with this qualified name; names without a domain belong to the driver's domain."""
        attributes: Object = mapping(self.spec.get("attributes"))
        found: Object | None = attributes.get(name)
        if found is None:
            domain, _, identifier = name.rpartition("/")
            found = attributes.get(identifier) if domain == self.driver else None
        return found

    def values(self, name: str) -> Values | None:
        """Returns the attribute's values; None if it is absent, the empty set if it holds no known value."""
        try:
            return self._attributes[name]
        except KeyError:
            found = self.published(name)
            if found is None:
                # Claims may name any attribute; only those that are there are remembered.
                return None
            result = self._attributes[name] = read_values(found)
            return result

    @property
    def capacity(self) -> dict[str, Capacity]:
        if self._capacity is None:
            entries = mapping(self.spec.get("capacity"))
            self._capacity = {name: _capacity(entry) for name, entry in entries.items()}
        return self._capacity

    @property
    def shape(self) -> tuple[Any, ...]:
        """A key that is equal for devices that no selector can tell apart."""
        if self._shape is None:
            attributes = mapping(self.spec.get("attributes"))
            capacity = mapping(self.spec.get("capacity"))
            self._shape = (
                self.driver,
                self.shareable,
                tuple(sorted((name, frozen(value)) for name, value in attributes.items())),
                tuple(sorted((name, str(entry.get("value"))) for name, entry in capacity.items())),
            )
        return self._shape


def read_values(attribute: Object) -> Values:
    for member, kind in _LISTS:
        if attribute.get(member):
            return frozenset((kind, value) for value in attribute[member])
    for kind in _SCALARS:
        if attribute.get(kind) is not None:
            return frozenset(((kind, attribute[kind]),))
    return NO_VALUE


def _is_sound(attribute: Object) -> bool:
    if "version" in attribute or "versions" in attribute:
        return all(map(is_semver, [attribute.get("version") or "0.0.0", *(attribute.get("versions") or ())]))
    for member, value in attribute.items():
        if value is not None and member in _KNOWN:
            return True
    return False


def is_scalar(attribute: Object | None) -> bool:
    return attribute is not None and not any(attribute.get(member) for member, _ in _LISTS)


def frozen(attribute: Object) -> tuple[tuple[str, Any], ...]:
    """Converts a published attribute to a hashable, ordered key."""
    pairs = [
        (kind, "\0".join(map(repr, value)) if isinstance(value, list) else repr(value))
        for kind, value in attribute.items()
    ]
    return tuple(sorted(pairs)) if len(pairs) > 1 else tuple(pairs)


def _consumptions(entries: Iterable[Object]) -> tuple[Consumption, ...]:
    return tuple(
        Consumption(
            entry["counterSet"],
            {name: quantity(counter["value"]).nanos for name, counter in mapping(entry.get("counters")).items()},
            frozenset(entry.get("compatibilityGroups") or ()),
        )
        for entry in entries
    )


def _capacity(entry: Object) -> Capacity:
    policy = entry.get("requestPolicy")
    return Capacity(quantity(entry["value"]), _policy(policy) if policy else None)


def _policy(policy: Object) -> RequestPolicy:
    valid_range = mapping(policy.get("validRange"))
    return RequestPolicy(
        _optional(policy.get("default")),
        _optional(valid_range.get("min")),
        _optional(valid_range.get("max")),
        _optional(valid_range.get("step")),
        bool(valid_range),
        tuple(quantity(value) for value in policy.get("validValues") or ()),
    )


def _optional(text: Any) -> Quantity | None:
    return None if text is None else quantity(text)


def quantity(text: Any) -> Quantity:
    return text if isinstance(text, Quantity) else Quantity.parse(str(text))
