"""What an expression may use: variables, functions, names of types, and how strict literals are.

An environment is a value. `DEVICE` is the most permissive one for devices (what schedulers use for stored objects);
`device_environment` makes the ones that depend on feature gates; `plain` makes ones without devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Final

from dray.cel import types as t
from dray.cel.declarations import Function, Library
from dray.cel.errors import EvaluationError
from dray.cel.library import (
    conversions,
    formats,
    kubernetes,
    lists,
    moments,
    network,
    optionals,
    regex,
    standard,
    strings,
    urls,
)
from dray.cel.types import Type

_NO_FIELDS: Final[Mapping[str, Type]] = MappingProxyType({})
Signature = tuple[str, bool, tuple[Type, ...]]
"""A function, whether it is called as a method, and the types of its operands."""
Fields = Mapping[str, Type]
"""The fields of a type of objects."""
Resolution = tuple[tuple[str, ...], Type]
"""The overloads that serve a call, and its type."""


@dataclass(frozen=True, eq=False)
class Environment:
    name: str
    variables: Mapping[str, Type]
    functions: Mapping[str, Function]
    constants: Mapping[str, Type]
    object_fields: Mapping[str, Mapping[str, Type]]
    """The fields of object types, by the name of the type."""
    homogeneous: bool = True
    """Whether lists and maps must be of one type."""
    checked: bool = True
    """Whether types are checked before running; only conformance cases ask for less."""
    escaped: bool = False
    """Whether fields of objects are written as `escaping.escape` writes names that are no identifiers."""
    made: frozenset[str] = frozenset()
    """The types of objects that an expression may make, besides those below `Object`; none without any."""
    resolutions: dict[Signature, Resolution] = field(default_factory=dict, repr=False)
    """Cache of resolved calls by operand types, shared by all expressions."""

    @cached_property
    def qualified(self) -> frozenset[str]:
        """The last parts of declared names with dots: no other selection can be such a name."""
        return _last_parts((*self.variables, *self.constants))

    @cached_property
    def namespaced(self) -> frozenset[str]:
        """The last parts of functions with dots."""
        return _last_parts(self.functions)

    def function(self, name: str) -> Function | None:
        return self.functions.get(name.lstrip("."))

    def field(self, type_: Type, field: str) -> Type | None:
        return self.object_fields.get(type_.name, _NO_FIELDS).get(field)

    def makes(self, name: str) -> bool:
        """Whether an expression may make an object of the type."""
        return name in self.made or (bool(self.made) and name.partition(".")[0] == "Object")


def _last_parts(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in names if "." in name)


_LANGUAGE: Final = (standard.LIBRARY, conversions.LIBRARY, moments.LIBRARY, optionals.LIBRARY, strings.LIBRARY)
_KUBERNETES: Final = (
    regex.LIBRARY,
    lists.LIBRARY,
    lists.EXTENSION,
    lists.SETS,
    kubernetes.LIBRARY,
    urls.LIBRARY,
    network.LIBRARY,
    formats.LIBRARY,
)


def device_environment(*, consumable_capacity: bool = True, list_attributes: bool = True) -> Environment:
    """The environment of device selectors under the given feature gates."""
    return _device_environment(consumable_capacity, list_attributes)


@lru_cache(maxsize=4)
def _device_environment(consumable_capacity: bool, list_attributes: bool) -> Environment:
    value = t.DYN if list_attributes else t.ANY
    fields = {
        "driver": t.STRING,
        "attributes": t.map_of(t.STRING, t.map_of(t.STRING, value)),
        "capacity": t.map_of(t.STRING, t.map_of(t.STRING, t.QUANTITY)),
    }
    if consumable_capacity:
        fields["allowMultipleAllocations"] = t.BOOL
    libraries = [*_LANGUAGE, *_KUBERNETES, *([lists.INCLUDES] if list_attributes else [])]
    return Environment(
        "device",
        {"device": t.DEVICE},
        _functions(libraries),
        _constants(libraries),
        {t.DEVICE.name: fields},
        homogeneous=True,
    )


def plain(variables: Mapping[str, Type], *, checked: bool = True) -> Environment:
    """Plain CEL with the string and optional libraries, over the given variables."""
    libraries = [*_LANGUAGE, regex.MATCHES, strings.REVERSE]
    return Environment(
        "plain", variables, _functions(libraries), _constants(libraries), {}, homogeneous=False, checked=checked
    )


def _constants(libraries: list[Library]) -> dict[str, Type]:
    return {name: type_ for library in libraries for name, type_ in library.constants.items()}


def _functions(libraries: list[Library]) -> dict[str, Function]:
    return merged({}, libraries)


def merged(functions: Mapping[str, Function], libraries: Iterable[Library]) -> dict[str, Function]:
    """Functions with those of more libraries."""
    found = dict(functions)
    for library in libraries:
        for name, function in library.functions.items():
            known = found.get(name)
            found[name] = function if known is None else _merge(known, function)
    return found


def _merge(one: Function, other: Function) -> Function:
    implementation = one.implementation
    if other.implementation is not implementation:
        implementation = _either(one, other)
    return Function(one.name, implementation, one.signatures + other.signatures)


def _either(one: Function, other: Function) -> Callable[..., Any]:
    """Two libraries share the name: the second serves what the first has no overload for."""
    first = {len(overload.params) for overload in one.overloads}
    second = {len(overload.params) for overload in other.overloads}

    def apply(*values: Any) -> Any:
        if len(values) in first:
            try:
                return one.implementation(*values)
            except EvaluationError as error:
                if len(values) not in second or not str(error).startswith("no such overload"):
                    raise
        return other.implementation(*values)

    return apply


DEVICE: Final = device_environment()
DEFAULT_GATES: Final = device_environment(consumable_capacity=True, list_attributes=False)
