"""`dray backup` and `dray restore`: the objects and keys of a cluster in one file, and a data directory made of it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import NoReturn

import click

from dray.cli.absolute_path import AbsolutePath
from dray.cli.down import data_option
from dray.process import up_state


@click.command()
@click.argument("file", type=AbsolutePath(dir_okay=False))
@data_option
def backup(file: Path, data: Path | None) -> None:
    """Write all objects and keys of a cluster to FILE, also while the cluster is running.

    FILE has the store, the certificates, the kubeconfig and the address of the cluster. It contains every secret, so
    only its owner can read it (mode 0600). Pods of this machine, their volumes and logs are not in it. A FILE that
    exists is not overwritten.

    \b
    Examples:
      dray backup lab-monday.tar.gz --data ~/lab
      dray backup /backup/dray-$(date +%F).tar.gz

    Exit status: 0 written, 2 not.
    """
    from dray.cli import backup_archive

    place = (data or up_state.default_data()).absolute()
    if not (place / "store").is_dir():
        _fail(f"{place} has no store; --data names the directory that dray up was started with")
    state = up_state.read(place)
    store = asyncio.run(_of_running(Path(state.kubeconfig))) if state is not None else _of_stopped(place)
    try:
        backup_archive.write(file, place, store)
    except backup_archive.ArchiveError as error:
        _fail(str(error))
    kib = -(-file.stat().st_size // 1024)
    click.echo(f"wrote {file} ({kib} KiB); restore it with: dray restore {file}")


async def _of_running(kubeconfig: Path) -> bytes:
    """Asks the server, which alone may read its store while it is running."""
    from dray.cli.cluster import Where, complain_unasked, endpoint_of
    from dray.client.errors import ClientError
    from dray.client.http import HttpTransport
    from dray.client.transport import Request

    transport = HttpTransport(endpoint_of(Where(kubeconfig, "", "")))
    try:
        answer = await transport.send(Request("GET", "/dray/backup"))
    except ClientError as error:
        complain_unasked(error, str(kubeconfig))
        sys.exit(2)
    finally:
        await transport.close()
    if answer.status != 200:
        _fail(f"the server refused to send its store: {answer.status} {answer.body[:300].decode(errors='replace')}")
    return answer.body


def _of_stopped(data: Path) -> bytes:
    from dray.store.interface import StoreError
    from dray.store.journal import Journal

    try:
        journal = Journal(data / "store", fsync=False)
        try:
            return journal.snapshot()
        finally:
            journal.abandon()
    except StoreError as error:
        _fail(str(error))


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@data_option
def restore(file: Path, data: Path | None) -> None:
    """Make a data directory of a backup that `dray backup` wrote.

    The directory must not exist or be empty. `dray up --data DIR` then continues with the objects, users and address of
    the backup. Of pods that were running, those with `restartPolicy: Never` have failed, the others are restarted.

    \b
    Examples:
      dray restore lab-monday.tar.gz --data ~/lab-restored

    Exit status: 0 restored, 2 not.
    """
    from dray.cli import backup_archive

    place = (data or up_state.default_data()).absolute()
    if (state := up_state.read(place)) is not None:
        _fail(f"process {state.pid} runs a cluster with {place}; end it with dray down, or use another directory")
    try:
        about = backup_archive.restore(file, place)
    except backup_archive.ArchiveError as error:
        _fail(str(error))
    click.echo(f"restored the backup of {about.created} to {place}; start it with: dray up --data {place}")


def _fail(message: str) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    sys.exit(2)
