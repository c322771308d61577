"""The scene of a cluster that has only machines of a fleet: their nodes, devices and DeviceClasses, and no pods."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.objects import Object
from dray.drivers.devices.classes import device_classes
from dray.fleet.machine import Machine
from dray.fleet.templates import slices_of
from dray.scheduling.groups.front_ends import FRONT_ENDS, TOPOLOGIES


def fleet_objects(machines: Sequence[Machine]) -> dict[str, list[Object]]:
    """Returns the objects by kind. Kinds of groups are there, without objects, as on a server of dray."""
    slices = [found for machine in machines for found in slices_of(machine)]
    drivers = {each["spec"]["driver"] for each in slices}
    found: dict[str, list[Object]] = {kind: [] for kind in (*FRONT_ENDS, *TOPOLOGIES)}
    nodes = [machine.node() for machine in machines]
    for node in nodes:
        node["metadata"]["uid"] = f"node/{node['metadata']['name']}"
    return {
        **found,
        "Namespace": [],
        "Node": nodes,
        "ResourceSlice": slices,
        "DeviceClass": device_classes(drivers),
        "ResourceClaim": [],
        "Pod": [],
    }
