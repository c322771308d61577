"""Admission of what subresources take: a Binding, an Eviction, a TokenRequest, the options of a connection."""

from __future__ import annotations

from typing import Final

from dray.api.intake import Refusal
from dray.api.objects import Object
from dray.server import status
from dray.server.admission.dynamic import mutating, validating
from dray.server.calls import Write
from dray.server.part_kinds import PartKind

CONNECT: Final = "CONNECT"


async def admit(write: Write, operation: str, document: Object, part: PartKind) -> Object:
    """Returns the document after policies and webhooks; raises their refusals, and a 400 for another kind of object."""
    decoded = part.decode(document, write.context.now(), write.context.gates)
    if isinstance(decoded, Refusal):
        raise status.refused(decoded, part.kind, part.group, write.place.name)
    if mutating.concerns(write, operation):
        decoded = await mutating.mutate(write, operation, decoded, part=part)
    await validating.validate(write.attributes(operation, decoded, part=part))
    return decoded
