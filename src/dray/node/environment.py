"""Environment of a container: from values, fields, ConfigMaps and Secrets, with $(NAME) expanded as Kubernetes does.

It begins with the variables of the Service `kubernetes`, by which clients in pods find the API server. Variables that
name each other can grow without limit, and so can ConfigMaps that are named often: no more is made of them than Linux
would take.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from dray.api.objects import Object, key_of, mapping, mappings
from dray.node.errors import SetupError
from dray.node.field_references import field_value, resource_value
from dray.node.pod_objects import PodObjects

_REFERENCE: Final = re.compile(r"\$\$|\$\(([^()$]+)\)")
_FROM: Final = (("configMapRef", "ConfigMap"), ("secretRef", "Secret"))
# Linux takes 128 KiB of one variable or argument, and 6 MiB of all together.
_LONGEST: Final = 128 << 10
_LONGEST_TOGETHER: Final = 6 << 20
_KEYS: Final = (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret"))


async def environment(
    pod: Object,
    container: Object,
    objects: PodObjects,
    facts: Mapping[str, str],
    node: Mapping[str, str],
    services: Mapping[str, str],
) -> dict[str, str]:
    """Returns the variables of the container; `services` are always included.

    Raises SetupError if a referenced object or key is missing and not optional.
    """
    namespace = key_of(pod)[0]
    found = dict(services)
    size = 0
    for source in mappings(container.get("envFrom")):
        for member, kind in _FROM:
            if reference := mapping(source.get(member)):
                given = await objects.data(kind, namespace, reference["name"], optional=bool(reference.get("optional")))
                prefix = str(source.get("prefix") or "")
                size = _checked(size + sum(len(prefix) + len(key) + len(value) for key, value in (given or {}).items()))
                where = f"{kind} {namespace}/{reference['name']}"
                found |= {
                    f"{prefix}{key}": _text(value, f"variable {prefix}{key} from {where}, key {key}")
                    for key, value in (given or {}).items()
                }
    for variable in mappings(container.get("env")):
        value = await _value(pod, container, variable, objects, facts, node)
        if value is not None:
            found[variable["name"]] = expanded(value, found) if variable.get("value") else value
            size = _checked(size + len(variable["name"]) + len(found[variable["name"]]))
    return found


def arguments(given: Iterable[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Expands the arguments of a command; raises SetupError if they are longer than Linux allows."""
    found: list[str] = []
    size = 0
    for text in given:
        found.append(expanded(str(text), values))
        size = _checked(size + len(found[-1]))
    return tuple(found)


def _checked(size: int) -> int:
    if size > _LONGEST_TOGETHER:
        problem = f"environment or arguments have more than {_LONGEST_TOGETHER} bytes, which Linux does not accept"
        raise SetupError("CreateContainerConfigError", problem)
    return size


def service_variables(server: str) -> dict[str, str]:
    """Returns the variables of the Service `kubernetes` for an API server URL; none if the URL is not https."""
    parts = urlsplit(server)
    host, port = parts.hostname or "", str(parts.port or 443)
    if parts.scheme != "https" or not host:
        return {}
    url = f"tcp://{f'[{host}]' if ':' in host else host}:{port}"
    prefix = f"KUBERNETES_PORT_{port}_TCP"
    return {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "KUBERNETES_SERVICE_PORT_HTTPS": port,
        "KUBERNETES_PORT": url,
        prefix: url,
        f"{prefix}_PROTO": "tcp",
        f"{prefix}_PORT": port,
        f"{prefix}_ADDR": host,
    }


def expanded(text: str, values: Mapping[str, str]) -> str:
    """Replaces $(NAME) by the value of NAME if there is one, and $$ by $.

    Raises SetupError if the result is longer than Linux allows.
    """
    size = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal size
        found = "$" if match[0] == "$$" else values.get(match[1], match[0])
        size += len(found)
        if size > _LONGEST:
            problem = f"{text[:100]!r} expands to more than {_LONGEST} bytes, which Linux does not accept"
            raise SetupError("CreateContainerConfigError", problem)
        return found

    return _REFERENCE.sub(replaced, text)


async def _value(
    pod: Object,
    container: Object,
    entry: Object,
    objects: PodObjects,
    facts: Mapping[str, str],
    node: Mapping[str, str],
) -> str | None:
    source = mapping(entry.get("valueFrom"))
    if not source:
        return str(entry.get("value") or "")
    if field := mapping(source.get("fieldRef")):
        return field_value(pod, str(field.get("fieldPath")), facts)
    if resource := mapping(source.get("resourceFieldRef")):
        return resource_value(pod, resource, container, node)
    for member, kind in _KEYS:
        if reference := mapping(source.get(member)):
            optional = bool(reference.get("optional"))
            name, key = str(reference.get("name")), str(reference.get("key"))
            data = await objects.data(kind, key_of(pod)[0], name, optional=optional)
            where = f"{kind} {key_of(pod)[0]}/{name}"
            if data is not None and key in data:
                return _text(data[key], f"variable {entry['name']} from {where}, key {key}")
            if not optional:
                message = f"couldn't find key {key} in {where}; {_remedy(key, data or {})}"
                raise SetupError("CreateContainerConfigError", message)
    return None


def _remedy(key: str, data: Mapping[str, bytes]) -> str:
    close = difflib.get_close_matches(key, data, n=1)
    return f"did you mean {close[0]}?" if close else "add the key, or correct its name"


def _text(value: bytes, place: str) -> str:
    if b"\0" in value:
        problem = "the value has a NUL byte, which no variable can hold; mount it as a file"
        raise SetupError("CreateContainerConfigError", f"{place}: {problem}")
    return value.decode(errors="surrogateescape")
