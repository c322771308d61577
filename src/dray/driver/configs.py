"""Opaque configuration of claims and classes, decoded into typed objects.

    class LampConfig(Config):
        api_version = "lamps.example.com/v1"
        brightness: int = 100

        def validate(self) -> None:
            if not 0 <= self.brightness <= 100:
                raise ValueError("brightness must be between 0 and 100")

A driver names its types in `Driver.configs`. Parameters are told apart by `apiVersion` and `kind`; a type whose
`api_version` is empty takes parameters that have neither. Decoding is strict: an unknown member or a wrong type fails
the claim. Of the entries that apply to a device, those of the class come before those of the claim, and the last one
counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from dray.api.objects import Object, mapping, mappings, strings
from dray.driver.config_messages import explained
from dray.driver.errors import InvalidConfig

_SOURCES = ("FromClass", "FromClaim")
# The reason is sent to the kubelet and becomes an event, and the parameters may have 10 KiB.
_LONGEST_TEXT = 200


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Base of a driver's configuration types: fields in snake case are read in camel case."""

    api_version: ClassVar[str] = ""
    kind: ClassVar[str | None] = ""
    """The name of the class, unless it is given; None for parameters that have no kind."""
    refusal: ClassVar[str] = ""
    """Why the driver takes no parameters of this kind, which others know; what is in them is not looked at."""

    def validate(self) -> None:
        """Raises ValueError with what is wrong; called after decoding, before any device is touched."""


class ConfigEntry(msgspec.Struct, frozen=True):
    """A decoded entry, and the requests it is for; none means all."""

    config: Config
    requests: tuple[str, ...]

    def applies_to(self, request: str) -> bool:
        """`gpu` covers `gpu/large` too; `gpu/large` covers that one alone."""
        return not self.requests or request in self.requests or request.partition("/")[0] in self.requests


def decode_entries(allocation: Mapping[str, Any], driver: str, types: Sequence[type[Config]]) -> list[ConfigEntry]:
    """The entries for this driver, those of classes before those of the claim, each in the order they stand."""
    entries = list(enumerate(mappings(mapping(allocation.get("devices")).get("config"))))
    found = []
    for source in _SOURCES:
        for index, entry in entries:
            opaque = mapping(entry.get("opaque"))
            if entry.get("source") == source and opaque.get("driver") == driver:
                place = f"status.allocation.devices.config[{index}].opaque.parameters ({source})"
                config = decode(mapping(opaque.get("parameters")), types, place)
                found.append(ConfigEntry(config, tuple(strings(entry.get("requests")))))
    return found


def decode(parameters: Object, types: Sequence[type[Config]], place: str = "") -> Config:
    """Raises InvalidConfig with the place and what is wrong. A member that is null counts as absent, as in the API."""
    api_version, kind = parameters.get("apiVersion") or "", parameters.get("kind") or ""
    where = f"{place}: " if place else ""
    chosen = type_of(parameters, types)
    if chosen is None:
        raise InvalidConfig(f"{where}{_named(api_version, kind)} is not known; the driver takes {_names(types)}")
    if chosen.refusal:
        raise InvalidConfig(f"{where}{_named(api_version, kind)}: {chosen.refusal}")
    rest = {name: member for name, member in parameters.items() if name not in ("apiVersion", "kind")}
    try:
        config = msgspec.convert(_present(rest), chosen)
        config.validate()
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidConfig(f"{where}{_named(api_version, kind)}: {_shortened(explained(error, chosen))}") from error
    return config


def type_of(parameters: Object, types: Sequence[type[Config]]) -> type[Config] | None:
    """Returns the type that parameters are of by apiVersion and kind; None if it is none of these."""
    named = parameters.get("apiVersion") or "", parameters.get("kind") or ""
    return next((type_ for type_ in types if (type_.api_version, _kind(type_)) == named), None)


def _present(value: Any) -> Any:
    """Returns the value without members that are null, at any depth."""
    if isinstance(value, dict):
        return {name: _present(member) for name, member in value.items() if member is not None}
    return [_present(item) for item in value] if isinstance(value, list) else value


def _kind(config: type[Config]) -> str:
    """Empty for parameters without kind."""
    if config.kind is None or not config.api_version:
        return ""
    return config.kind or config.__name__


def _named(api_version: Any, kind: Any) -> str:
    return f"{_shortened(api_version)} {_shortened(kind)}".strip() or "parameters without apiVersion and kind"


def _shortened(value: Any) -> str:
    """The value as text; the middle of a long text is left out."""
    text = str(value)
    if len(text) <= 2 * _LONGEST_TEXT:
        return text
    return f"{text[:_LONGEST_TEXT]} … {text[-_LONGEST_TEXT:]}"


def _names(types: Iterable[type[Config]]) -> str:
    return (
        ", ".join(_named(type_.api_version, _kind(type_)) for type_ in types if not type_.refusal) or "no configuration"
    )
