"""Injection: the CDI devices of a prepared claim, in one spec file for the claim.

The file is written at every prepare, whatever was prepared before: its directory is empty after the machine was
started. Names contain the claim's uid, so that no name ever stands for two things.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dray.driver.cdi.directory import CdiDirectory, spec_name
from dray.driver.cdi.names import check_qualified, qualified
from dray.driver.cdi.spec import Spec, SpecDevice
from dray.driver.claims import AllocatedDevice, Claim
from dray.driver.errors import ClaimFailed
from dray.driver.prepared import Prepared, PreparedDevice


@dataclass(slots=True)
class AnsweredDevice:
    """A device in the answer to the kubelet."""

    device: AllocatedDevice
    cdi_ids: list[str] = field(default_factory=list)


class Injection:
    def __init__(self, kind: str, cdi: CdiDirectory) -> None:
        self.kind = kind
        self._cdi = cdi

    def write(self, claim: Claim, prepared: Prepared) -> list[AnsweredDevice]:
        """One answer for each allocated device, in the order of the allocation."""
        given = _by_device(claim, prepared.devices)
        answers: list[AnsweredDevice] = []
        written: dict[str, SpecDevice] = {}
        for device in claim.devices:
            answer = AnsweredDevice(device)
            answers.append(answer)
            found = given.get(device)
            if found is None:
                continue
            if found.edits is not None and not found.edits.is_empty:
                name = _free_name(f"{claim.uid}-{device.device}", written)
                written[name] = SpecDevice(name, found.edits, dict(found.annotations))
                answer.cdi_ids.append(qualified(self.kind, name))
            for id_ in found.cdi_ids:
                check_qualified(id_)
                answer.cdi_ids.append(id_)
        if written:
            spec = Spec(self.kind, tuple(written.values()), prepared.edits)
            self._cdi.write(spec_name(self.kind, claim.uid), spec)
        else:
            self.remove(claim.uid)
        return answers

    def remove(self, uid: str) -> None:
        self._cdi.remove(spec_name(self.kind, uid))


def _by_device(claim: Claim, devices: Sequence[PreparedDevice]) -> dict[AllocatedDevice, PreparedDevice]:
    given: dict[AllocatedDevice, PreparedDevice] = {}
    for device in devices:
        named = f"device {device.device.pool}/{device.device.device} of request {device.device.request}"
        if device.device not in claim.devices:
            raise ClaimFailed(f"prepare of claim {claim.reference} answered {named}, which is not allocated to it")
        if device.device in given:
            raise ClaimFailed(f"prepare of claim {claim.reference} answered {named} twice")
        given[device.device] = device
    return given


def _free_name(name: str, taken: dict[str, SpecDevice]) -> str:
    """Several pools, shares or requests may have a device of the same name."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
