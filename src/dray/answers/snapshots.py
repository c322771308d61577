"""`take_snapshot`: writes everything that the scheduler reads from a cluster to a file without secrets."""

from __future__ import annotations

import os
from pathlib import Path

from dray.answers.cluster import Cluster
from dray.answers.errors import InvalidInput
from dray.answers.source import Source
from dray.snapshot.files import Snapshot, SnapshotError, write
from dray.snapshot.taking import take


def take_snapshot(path: str | os.PathLike[str], cluster: Cluster | None = None) -> Path:
    """Writes a snapshot of the cluster, which `Cluster.from_snapshot` reads, and returns its path.

    Raises InvalidInput if the file cannot be written, and ClientError if the server does not answer.
    """

    async def take_from(source: Source) -> Snapshot:
        return await take(source.client, source.now(), source.namespace)

    file = Path(path)
    try:
        write((cluster or Cluster.from_kubeconfig()).ask(take_from), file)
    except SnapshotError as error:
        raise InvalidInput([str(error)]) from None
    return file
