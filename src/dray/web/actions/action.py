"""An action: what it needs, and what it does to a target."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from dray.api.objects import Object, mapping, metadata_of
from dray.client.discovery import ServedResource
from dray.client.interface import DeleteOptions, WriteOptions
from dray.web.view import BadCall, Call


@dataclass(frozen=True, slots=True)
class Result:
    """What was done, or with a dry run what would be."""

    text: str
    notes: list[str] = field(default_factory=list)
    """What follows from it."""
    uid: str = ""
    """Of the object that a dry run looked at; what is done later is done to this very object."""

    def document(self) -> Object:
        return {"text": self.text, "notes": self.notes, "uid": self.uid}


@dataclass(frozen=True, slots=True)
class Request:
    """One call of an action."""

    call: Call
    resource: ServedResource
    namespace: str
    name: str
    dry_run: bool

    @property
    def writing(self) -> WriteOptions:
        return WriteOptions(field_manager="dray-page", dry_run=self.dry_run)

    def field(self, name: str, default: str = "") -> str:
        """A value that the viewer gave; raises BadCall."""
        value = mapping(self.call.body.get("fields")).get(name, default)
        if not isinstance(value, str) or len(value) > 300:
            raise BadCall(f"{name} must be a short text")
        return value.strip()

    async def delete(self, name: str) -> str:
        """Deletes an object, the one that the dry run saw; returns its uid."""
        options = DeleteOptions(uid=self.call.text("uid", ""), dry_run=self.dry_run)
        answer = await self.call.client.delete(self.resource, name, namespace=self.namespace, options=options)
        found = metadata_of(answer).get("uid") or mapping(answer.get("details")).get("uid") or ""
        return str(found)


Perform = Callable[[Request], Awaitable[Result]]
Fields = Callable[[Call, str], list[Object] | None]


def no_fields(call: Call, name: str) -> list[Object]:
    return []


@dataclass(frozen=True, slots=True)
class Action:
    name: str
    target: str
    """device, node, pod or claim, or the kind of a queue: queues of Kueue and KAI may have the same name."""
    title: str
    verb: str
    kind: str
    """Of model.KINDS: the right that it takes is the verb on this kind."""
    perform: Perform
    fields: Fields = no_fields
    """What to ask the viewer for, given the name of the target; None where the action makes no sense now."""
    danger: bool = False

    def document(self, fields: list[Object]) -> dict[str, Any]:
        return {"title": self.title, "danger": self.danger, "fields": fields}


def choice(name: str, title: str, options: list[str]) -> Object:
    return {"name": name, "title": title, "options": options, "value": options[0]}


def entry(name: str, title: str, value: str = "") -> Object:
    return {"name": name, "title": title, "value": value}
