"""Volumes of a pod: a name of its own and one source each, and what each source must say."""

from __future__ import annotations

from typing import Final

from dray.api import errors
from dray.api.objects import Object, mapping, mappings
from dray.api.quantity import Quantity
from dray.api.validation import fields, paths, projected_volumes
from dray.api.validation.fields import Errors

HOST_PATH_TYPES: Final = "BlockDevice CharDevice Directory DirectoryOrCreate File FileOrCreate Socket".split()


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
    if volume.get("hostPath") is not None:
        yield from _host_path(volume["hostPath"], f"{path}.hostPath")
    for member, name in (("configMap", "name"), ("secret", "secretName")):
        if volume.get(member) is not None:
            yield from _files(volume[member], f"{path}.{member}", name)
    if volume.get("downwardAPI") is not None:
        at = f"{path}.downwardAPI"
        yield from projected_volumes.mode(volume["downwardAPI"].get("defaultMode"), f"{at}.defaultMode")
        yield from projected_volumes.downward(volume["downwardAPI"], at)
    if volume.get("persistentVolumeClaim") is not None and not volume["persistentVolumeClaim"].get("claimName"):
        yield errors.required(f"{path}.persistentVolumeClaim.claimName")
    if volume.get("projected") is not None:
        yield from projected_volumes.validate(volume["projected"], f"{path}.projected")


def _host_path(source: Object, path: str) -> Errors:
    if not source.get("path"):
        yield errors.required(f"{path}.path")
        return
    yield from paths.no_backsteps(source["path"], f"{path}.path")
    yield from fields.enum(source.get("type"), HOST_PATH_TYPES, f"{path}.type")


def _files(source: Object, path: str, name: str) -> Errors:
    """A ConfigMap or Secret whose keys become files."""
    if not source.get(name):
        yield errors.required(f"{path}.{name}")
    yield from projected_volumes.mode(source.get("defaultMode"), f"{path}.defaultMode")
    yield from projected_volumes.items(mappings(source.get("items")), f"{path}.items")
