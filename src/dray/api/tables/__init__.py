"""Tables: the columns `kubectl get` shows for a kind, which make the cells of an object's row.

Times are RFC 3339 text, and `now` is handed in. Kinds without an entry show name and age.
"""

from __future__ import annotations

from dray.api.catalogue import Kind
from dray.api.tables import cluster, devices, gangs, network, pods, policy, replicas, sets, storage
from dray.api.tables.column import AGE, NAME, Column

_COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    **cluster.COLUMNS,
    **devices.COLUMNS,
    **gangs.COLUMNS,
    **network.COLUMNS,
    **pods.COLUMNS,
    **policy.COLUMNS,
    **replicas.COLUMNS,
    **sets.COLUMNS,
    **storage.COLUMNS,
}


def columns(kind: Kind) -> tuple[Column, ...]:
    return _COLUMNS.get((kind.group, kind.name), (NAME, AGE))
