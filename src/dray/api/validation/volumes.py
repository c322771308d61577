"""Volumes of a pod: a name of its own and one source each."""

from __future__ import annotations

from dray.api import errors
from dray.api.objects import Object, mapping
from dray.api.quantity import Quantity
from dray.api.validation import fields
from dray.api.validation.fields import Errors


def validate(volumes: list[Object], path: str) -> Errors:
    seen = set()
    for index, volume in enumerate(volumes):
        at, name = f"{path}[{index}]", volume["name"]
        if not name:
            yield errors.required(f"{at}.name")
        else:
            yield from fields.label(name, f"{at}.name")
        if name in seen:
            yield errors.duplicate(f"{at}.name", name)
        seen.add(name)
        sources = [member for member, value in volume.items() if member != "name" and value is not None]
        if not sources:
            yield errors.required(at, "must specify a volume type")
        for member in sources[1:]:
            yield errors.forbidden(f"{at}.{member}", "may not specify more than 1 volume type")
        yield from _source(volume, at)


def _source(volume: Object, path: str) -> Errors:
    limit = mapping(volume.get("emptyDir")).get("sizeLimit")
    if limit is not None and Quantity.parse(limit).sign() < 0:
        yield errors.forbidden(f"{path}.emptyDir.sizeLimit", "SizeLimit field must be a valid resource quantity")
    if volume.get("hostPath") is not None and not volume["hostPath"].get("path"):
        yield errors.required(f"{path}.hostPath.path")
    if volume.get("configMap") is not None and not volume["configMap"].get("name"):
        yield errors.required(f"{path}.configMap.name")
    if volume.get("secret") is not None and not volume["secret"].get("secretName"):
        yield errors.required(f"{path}.secret.secretName")
    if volume.get("persistentVolumeClaim") is not None and not volume["persistentVolumeClaim"].get("claimName"):
        yield errors.required(f"{path}.persistentVolumeClaim.claimName")
