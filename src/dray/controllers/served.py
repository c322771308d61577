"""What an API server serves, as it tells itself: for the controllers that work on every kind there is.

Discovery is asked group version by group version, in the plain form that every server speaks. A group version that
does not answer (an aggregated server that is down) is reported, not forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dray.api.objects import Object
from dray.client.errors import ApiError, ClientError
from dray.client.interface import Client

_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class ServedResource:
    """A resource in the version that the server prefers."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, slots=True)
class Discovered:
    """`failed` are groups of which not every version answered, with what went wrong: there may be more in them."""

    resources: tuple[ServedResource, ...]
    failed: dict[str, str]


async def discover(client: Client) -> Discovered:
    """Raises ClientError where not even the list of groups is to be had."""
    groups = await client.request("GET", "/apis")
    asked = [("", "v1")]
    for group in groups.get("groups") or ():
        asked += [(group["name"], version) for version in _versions(group)]
    turns = asyncio.Semaphore(_AT_ONCE)

    async def ask(group: str, version: str) -> list[ServedResource] | ClientError:
        async with turns:
            return await _resources(client, group, version)

    answers = await asyncio.gather(*(ask(*each) for each in asked))
    found: dict[tuple[str, str], ServedResource] = {}
    failed: dict[str, str] = {}
    for (group, _), answer in zip(asked, answers, strict=True):
        if isinstance(answer, ClientError):
            failed[group] = str(answer)
            continue
        for resource in answer:
            found.setdefault((resource.group, resource.plural), resource)
    return Discovered(tuple(found.values()), failed)


def _versions(group: Object) -> Iterable[str]:
    """The preferred one first."""
    preferred = (group.get("preferredVersion") or {}).get("version")
    listed = [str(each["version"]) for each in group.get("versions") or ()]
    return sorted(listed, key=lambda version: version != preferred)


async def _resources(client: Client, group: str, version: str) -> list[ServedResource] | ClientError:
    try:
        answer = await client.request("GET", f"/apis/{group}/{version}" if group else f"/api/{version}")
    except ApiError as error:
        # It was taken away between the two questions.
        return [] if error.is_not_found else error
    except ClientError as error:
        return error
    return [
        ServedResource(
            group, version, each["name"], each["kind"], bool(each.get("namespaced")), frozenset(each.get("verbs") or ())
        )
        for each in answer.get("resources") or ()
        if "/" not in each["name"]
    ]
