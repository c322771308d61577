"""VolumeZone: rejects nodes outside the zones and regions that the volumes of the pod are labelled with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dray.api.objects import Object, labels_of
from dray.scheduling.cluster.volumes import ZONES, PodVolumes
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.model.node import Node
from dray.scheduling.model.reasons import Code
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import SKIP, Plugin, Skip
from dray.scheduling.plugins.volume_binding import VolumeBinding


class VolumeZone(Plugin):
    skip_is_final = True

    def prefilter(self, cycle: Cycle) -> Skip | None:
        volumes: PodVolumes | None = cycle.data.get(VolumeBinding.name)
        return None if volumes is not None and volumes.bound else SKIP

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        volumes: PodVolumes = cycle.data[VolumeBinding.name]
        if any(new in node.labels or old in node.labels for new, old in ZONES.items()):
            for volume in volumes.bound:
                if not _is_in_zone(volume, node.labels):
                    return _STATUS
        return None


def _is_in_zone(volume: Object, node: Mapping[str, str]) -> bool:
    """Whether the node is in a zone and region of the volume; several names in one label are joined by `__`."""
    labels = labels_of(volume)
    for new, old in ZONES.items():
        wanted = labels.get(new, labels.get(old))
        if wanted is not None and (node.get(new) or node.get(old)) not in str(wanted).split("__"):
            return False
    return True


_STATUS: Final = Status.of(VolumeZone.name, Code.VOLUME_ZONE, resolvable=False)
