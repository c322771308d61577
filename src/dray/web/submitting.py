"""Manifests that viewers submit: read as text, and applied on the server with the rights of the viewer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from dray.answers.advice import advice_in
from dray.answers.manifests.reading import Manifest, Reading, of_text
from dray.answers.one_line import one_line
from dray.api.objects import Object
from dray.client.api import ApiClient
from dray.client.discovery import ServedResource, discover
from dray.client.errors import ApiError, NotFound
from dray.client.interface import PatchType, WriteOptions
from dray.web.view import BadCall

MOST_BYTES: Final = 256 * 1024
MOST_OBJECTS: Final = 100
SOURCE: Final = "manifest"
"""What messages call the text of a viewer."""
_MANAGER: Final = "dray"
_FIRST: Final = ("Namespace", "CustomResourceDefinition")


def bounded(text: str) -> str:
    """The text of a viewer; raises BadCall if it is too long."""
    if len(text.encode()) > MOST_BYTES:
        raise BadCall(f"the manifest has more than {MOST_BYTES // 1024} KiB; `dray apply -f FILE` takes larger ones")
    return text


def read(text: str) -> Reading:
    # Never as the name of a file: that would be one of the server.
    return of_text(SOURCE, text.encode())


async def apply(client: ApiClient, text: str, namespace: str, *, dry_run: bool) -> list[Object]:
    """Returns what came of each object, in the order in which they were applied. Raises BadCall and ClientError."""
    reading = await asyncio.to_thread(read, bounded(text))
    if reading.problems:
        raise BadCall(one_line(str(reading.problems[0])))
    if not reading.manifests:
        raise BadCall("there is no object in this text; paste a manifest, or choose an example")
    if len(reading.manifests) > MOST_OBJECTS:
        raise BadCall(f"there are more than {MOST_OBJECTS} objects; `dray apply -f FILE` takes more")
    served = (await discover(client)).resources
    options = WriteOptions(_MANAGER, "Strict", dry_run=dry_run)
    ordered = sorted(reading.manifests, key=lambda each: each.kind not in _FIRST)
    return [await _applied(client, manifest, served, namespace, options) for manifest in ordered]


async def _applied(
    client: ApiClient, manifest: Manifest, served: Sequence[ServedResource], namespace: str, options: WriteOptions
) -> Object:
    row: Object = {"kind": manifest.kind, "name": manifest.name, "line": manifest.place.line}
    known = (manifest.api_version, manifest.kind)
    resource = next((each for each in served if (each.api_version, each.kind) == known), None)
    if resource is None:
        kind = f"{manifest.kind or 'an object without kind'} in {manifest.api_version or 'no apiVersion'}"
        return {**row, "problem": f"the server does not have {kind}"}
    if not manifest.name:
        return {**row, "problem": "metadata.name is missing: what is submitted here needs a name"}
    place = (manifest.namespace or namespace) if resource.namespaced else ""
    row["namespace"] = place
    try:
        before = await _current(client, resource, manifest.name, place)
        await client.patch(
            resource, manifest.name, manifest.document, namespace=place, patch_type=PatchType.APPLY, options=options
        )
    except ApiError as error:
        advice = advice_in(str(error))
        return {**row, "problem": one_line(f"{error} ({advice})" if advice else str(error))}
    except (ValueError, OverflowError) as error:
        return {**row, "problem": one_line(str(error))}
    return {**row, "outcome": "configured" if before else "created"}


async def _current(client: ApiClient, resource: ServedResource, name: str, namespace: str) -> bool:
    """Whether the object is there; unknown is no, since it may be created without being read."""
    try:
        await client.get(resource, name, namespace=namespace)
    except NotFound:
        return False
    except ApiError as error:
        if error.is_forbidden:
            return False
        raise
    return True
