"""A device as expressions see it: built once from a ResourceSlice's entry, then read many times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dray.api.quantity import Quantity, QuantityError
from dray.api.semver import Semver, SemverError
from dray.cel.attributes import DomainMap
from dray.cel.errors import EvaluationError
from dray.cel.values import Value

MAX_ENTRIES: Final = 32
MAX_VALUE: Final = 64
_MAX_DOMAIN: Final = 63
_MAX_ID: Final = 32

# In the order in which the first present field is the value.
_FIELDS: Final[dict[str, type]] = {
    "ints": int,
    "bools": bool,
    "strings": str,
    "versions": str,
    "int": int,
    "bool": bool,
    "string": str,
    "version": str,
}


class Device:
    """The variable `device`. `problem` is what makes every evaluation on this device fail, if anything does."""

    __slots__ = ("allow_multiple_allocations", "attributes", "capacity", "driver", "ordinary", "problem")

    FIELDS: Final = {
        "driver": "driver",
        "attributes": "attributes",
        "capacity": "capacity",
        "allowMultipleAllocations": "allow_multiple_allocations",
    }

    def __init__(self, driver: str, device: Mapping[str, Any]) -> None:
        self.driver = driver
        self.allow_multiple_allocations = bool(device.get("allowMultipleAllocations"))
        self.attributes = DomainMap()
        self.capacity = DomainMap()
        self.problem: EvaluationError | None = None
        try:
            for name, attribute in _entries(device, "attributes"):
                _file(self.attributes, driver, name, _attribute_value(name, attribute))
            for name, capacity in _entries(device, "capacity"):
                _file(self.capacity, driver, name, _capacity_value(name, capacity))
        except EvaluationError as error:
            self.problem = error
        self.ordinary = self.problem is None and self._within_sizes()

    def _within_sizes(self) -> bool:
        """Whether the device keeps the sizes that cost estimates assume."""
        if len(self.driver) > _MAX_DOMAIN:
            return False
        for domains in (self.attributes, self.capacity):
            if len(domains) > MAX_ENTRIES:
                return False
            for domain, entries in domains.items():
                if len(domain) > _MAX_DOMAIN or len(entries) > MAX_ENTRIES:
                    return False
                for identifier, value in entries.items():
                    large = isinstance(value, str | list) and len(value) > MAX_VALUE
                    if large or len(identifier) > _MAX_ID or (isinstance(value, list) and _has_long_text(value)):
                        return False
        return True


def _entries(device: Mapping[str, Any], field: str) -> list[tuple[str, Mapping[str, Any]]]:
    entries = device.get(field) or {}
    if not isinstance(entries, Mapping) or not all(isinstance(entry, Mapping) for entry in entries.values()):
        raise EvaluationError(f"{field} must be a map of objects")
    return [(str(name), entries[name]) for name in sorted(entries, key=str)]


def _has_long_text(values: list[Value]) -> bool:
    return any(isinstance(value, str) and len(value) > MAX_VALUE for value in values)


def _file(domains: DomainMap, driver: str, name: str, value: Value) -> None:
    domain, slash, identifier = name.partition("/")
    if not slash:
        domain, identifier = driver, name
    domains.setdefault(domain, {})[identifier] = value


def _attribute_value(name: str, attribute: Mapping[str, Any]) -> Value:
    for field, kind in _FIELDS.items():
        value = attribute.get(field)
        if value is None:
            continue
        values = value if field.endswith("s") else [value]
        if not isinstance(values, list) or any(type(one) is not kind for one in values):
            break
        if field.startswith("version"):
            values = [_version(name, one) for one in values]
        return list(values) if field.endswith("s") else values[0]
    raise EvaluationError(f"attribute {name}: unsupported attribute value")


def _version(name: str, text: str) -> Semver:
    try:
        return Semver.parse(text)
    except SemverError as error:
        raise EvaluationError(f"attribute {name}: parse semantic version: {error}") from None


def _capacity_value(name: str, capacity: Mapping[str, Any]) -> Quantity:
    try:
        return Quantity.parse(str(capacity.get("value", "0")))
    except QuantityError as error:
        raise EvaluationError(f"capacity {name}: {error}") from None
