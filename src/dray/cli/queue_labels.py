"""The label by which a pod names its queue: that of Kueue or that of KAI, by the kind of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from dray.api.objects import metadata_of
from dray.api.suggestions import suggestion

if TYPE_CHECKING:
    from dray.cli.cluster import Cluster

_KUEUE: Final = "localqueues.kueue.x-k8s.io"
_KAI: Final = "queues.scheduling.run.ai"


async def queue_label(cluster: Cluster, queue: str) -> str:
    """Returns the label that puts a pod into the queue; raises ClickException if there is no such queue."""
    from dray.scheduling.quota.kai import queue as kai_queue
    from dray.scheduling.quota.kueue import kinds as kueue

    labels = {_KUEUE: kueue.QUEUE_LABEL, _KAI: kai_queue.QUEUE_LABEL}
    found: list[str] = []
    unreadable = ""
    for kind, label in labels.items():
        names = await _names(cluster, kind)
        if names is None:
            unreadable = unreadable or label
        elif queue in names:
            return label
        else:
            found += names
    if unreadable:
        # The scheduler says so if the queue does not exist.
        return unreadable
    raise click.ClickException(f"queue {queue} not found in namespace {cluster.namespace}; {suggestion(queue, found)}")


async def _names(cluster: Cluster, kind: str) -> list[str] | None:
    """Returns the names of the queues; None if the user may not list them."""
    from dray.client.errors import ApiError

    served = (await cluster.catalog()).named(kind)
    if not served:
        return []
    try:
        found = await cluster.client.list_all(served[0], namespace=cluster.place(served[0]))
    except ApiError as error:
        if not error.is_forbidden:
            raise
        return None
    return [str(metadata_of(queue)["name"]) for queue in found.get("items") or ()]
