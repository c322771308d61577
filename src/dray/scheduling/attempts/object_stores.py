"""Object stores: the functions that put and remove objects of each kind that needs no other handling."""

from __future__ import annotations

from collections.abc import Callable

from dray.api.objects import Object
from dray.scheduling.cluster import node_classes
from dray.scheduling.core.state import State
from dray.scheduling.eviction.preemption import Preemptor

Take = Callable[[Object], None]


def object_stores(state: State, preemptor: Preemptor) -> dict[str, tuple[Take, Take]]:
    def name(document: Object) -> str:
        return str(document["metadata"]["name"])

    def reconsidering(change: Callable[[str, Object], None], kind: str) -> Take:
        def take(document: Object) -> None:
            change(kind, document)
            state.reconsider()

        return take

    volumes, budgets = state.volumes, preemptor.budgets
    return {
        "Node": (state.put_node, lambda each: state.remove_node(name(each))),
        "ResourceSlice": (state.put_slice, state.remove_slice),
        "DeviceClass": (state.put_class, lambda each: state.remove_class(name(each))),
        "DeviceTaintRule": (state.put_taint_rule, lambda each: state.remove_taint_rule(name(each))),
        "Namespace": (
            lambda each: state.put_namespace(name(each), each["metadata"].get("labels") or {}),
            lambda each: state.put_namespace(name(each), None),
        ),
        "PodDisruptionBudget": (budgets.put, budgets.remove),
        "PersistentVolumeClaim": (volumes.put, volumes.remove),
        "PersistentVolume": (volumes.put_volume, volumes.remove_volume),
        "StorageClass": (volumes.put_class, volumes.remove_class),
        **{
            kind: (reconsidering(state.node_classes.put, kind), reconsidering(state.node_classes.remove, kind))
            for kind in node_classes.KINDS
        },
    }
