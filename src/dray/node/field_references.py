"""Fields of a pod that its containers ask for: `fieldRef` and `resourceFieldRef`, in environments and files. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from dray.api.objects import Object, annotations_of, labels_of, mapping, mappings, metadata_of, spec_of
from dray.api.quantity import Quantity
from dray.node.errors import SetupError

_KEYED: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")


def field_value(pod: Object, path: str, facts: Mapping[str, str]) -> str:
    """Returns the value of a `fieldRef`; `facts` has values that only the node knows, such as status.podIP."""
    if found := _KEYED.fullmatch(path):
        values = labels_of(pod) if found[1] == "labels" else annotations_of(pod)
        return str(values.get(found[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        values = labels_of(pod) if path.endswith("labels") else annotations_of(pod)
        return "\n".join(f"{key}={_quoted(str(value))}" for key, value in sorted(values.items()))
    if path in ("metadata.name", "metadata.namespace", "metadata.uid"):
        return str(metadata_of(pod).get(path.partition(".")[2]) or "")
    if path in ("spec.nodeName", "spec.serviceAccountName"):
        return str(spec_of(pod).get(path.partition(".")[2]) or "")
    if path in facts:
        return facts[path]
    raise SetupError("CreateContainerConfigError", f"field {path} is not known")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def resource_value(pod: Object, reference: Object, container: Object, node: Mapping[str, str]) -> str:
    """Returns a limit or request of a container in units of its divisor; without a limit, the node's amount."""
    name = reference.get("containerName")
    if name:
        every = [*mappings(spec_of(pod).get("containers")), *mappings(spec_of(pod).get("initContainers"))]
        container = next((container for container in every if container["name"] == name), container)
    kind, _, resource = str(reference.get("resource") or "").partition(".")
    resources = mapping(container.get("resources"))
    value = mapping(resources.get(kind)).get(resource)
    if value is None and kind == "limits":
        value = node.get(resource, "0")
    divisor = Quantity.parse(str(reference.get("divisor") or "0")).nanos or Quantity.of(1).nanos
    return str(-(-Quantity.parse(str(value or "0")).nanos // divisor))
