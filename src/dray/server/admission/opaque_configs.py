"""Opaque configuration of claims, templates and classes, which only drivers can judge.

The server knows no drivers: `Context.opaque_configs` has a check from whoever runs it. Kubernetes stores any
configuration, so that the writer gets a warning; `refuses` makes it a refusal, as an admission webhook of a driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dray.api.errors import ErrorType, FieldError
from dray.api.objects import Object, mapping, mappings, text, walk
from dray.server import status
from dray.server.admission.attributes import Attributes

_PATHS = {
    "ResourceClaim": ("spec", "devices", "config"),
    "ResourceClaimTemplate": ("spec", "spec", "devices", "config"),
    "DeviceClass": ("spec", "config"),
}


@dataclass(frozen=True, slots=True)
class OpaqueConfigs:
    """Checks opaque configuration of claims and classes.

    `problem` gets a driver and parameters, and returns a field in them and what is wrong. It returns None for valid
    parameters, and for drivers that it does not know.
    """

    problem: Callable[[str, Any], tuple[str, str] | None]
    refuses: bool = False


def check(attributes: Attributes) -> None:
    configs, path = attributes.context.opaque_configs, _PATHS[attributes.resource.kind]
    if configs is None or attributes.subresource:
        return
    entries = _entries(attributes.obj, path)
    if not entries:
        return
    if attributes.old is not None and entries == _entries(attributes.old, path):
        return
    problems = list(_problems(configs, entries, ".".join(path)))
    if problems and configs.refuses:
        raise status.invalid(attributes.resource.kind, attributes.resource.group, attributes.name, problems)
    attributes.warnings.extend(f"{problem.field}: {problem.detail}" for problem in problems)


def _entries(obj: Object, path: tuple[str, ...]) -> list[Object]:
    *above, last = path
    return mappings(walk(obj, *above).get(last))


def _problems(configs: OpaqueConfigs, entries: list[Object], path: str) -> Iterator[FieldError]:
    for index, entry in enumerate(entries):
        opaque = mapping(entry.get("opaque"))
        found = configs.problem(text(opaque.get("driver")), opaque.get("parameters"))
        if found is not None:
            member, message = found
            field = f"{path}[{index}].opaque.parameters{f'.{member}' if member else ''}"
            yield FieldError(ErrorType.FORBIDDEN, field, message)
