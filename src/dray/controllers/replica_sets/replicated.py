"""Kinds that keep a number of equal pods: ReplicaSet and ReplicationController.

They differ in how they write their selector; everything else is the same under another name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dray.api.catalogue import KindVersion
from dray.api.label_selectors import Matcher, from_object, nothing
from dray.api.objects import Object, spec_of
from dray.controllers.kinds import REPLICA_SETS, REPLICATION_CONTROLLERS


@dataclass(frozen=True, slots=True)
class Replicated:
    kind: KindVersion
    # The controller's name.
    name: str
    selector: Callable[[Object], Matcher]
    # Whether the status says how many pods are terminating.
    counts_terminating: bool


def selector_of(obj: Object) -> Matcher:
    """Returns the matcher of an `apps` object; without a selector it matches nothing."""
    selector = spec_of(obj).get("selector")
    return from_object(selector) if selector is not None else nothing


def _labels_selector(obj: Object) -> Matcher:
    labels = spec_of(obj).get("selector")
    return from_object({"matchLabels": labels}) if labels else nothing


REPLICA_SET: Final = Replicated(REPLICA_SETS, "replicaset", selector_of, counts_terminating=True)
REPLICATION_CONTROLLER: Final = Replicated(
    REPLICATION_CONTROLLERS, "replicationcontroller", _labels_selector, counts_terminating=False
)
