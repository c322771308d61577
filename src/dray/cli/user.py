"""`dray user`: adds people to a cluster, lists them, and removes them."""

from __future__ import annotations

import asyncio
import base64
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dray.answers.views.device_facts import table
from dray.api.namespace_users import USER_LABEL
from dray.api.objects import Object, labels_of, mapping, mappings, metadata_of, spec_of
from dray.api.suggestions import suggestion
from dray.cli.cluster import Cluster, Where, ask, endpoint_of, reaching
from dray.cli.output_formats import output_option, structured
from dray.cli.user_objects import ADMIN, FLAVOR, NewUser, token_name

if TYPE_CHECKING:
    from dray.client.discovery import ServedResource

_TOKEN_SECONDS: Final = 30.0
_FIELD_MANAGER: Final = "dray-user"


@click.group()
def user() -> None:
    """Add, list and remove the users of a cluster.

    \b
    Examples:
      dray user add ann --gpus 2
      dray user list
    """


def _user_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    from dray.api.names import is_label

    if not is_label(value):
        raise click.BadParameter(f"{value!r} cannot be a user name; use lower-case letters, digits and '-', as in ann")
    if value in ("default", "kube-system", "kube-public", "kube-node-lease"):
        raise click.BadParameter(f"{value!r} is a namespace of the cluster itself; choose another name")
    return value


@user.command()
@click.argument("name", callback=_user_name)
@click.option("--gpus", type=click.IntRange(0), metavar="COUNT", help="Create a queue with this GPU quota.")
@click.option(
    "--gpu-class", default="gpu.nvidia.com", show_default=True, metavar="NAME", help="DeviceClass of the quota."
)
@click.option(
    "--queue", default="", metavar="NAME", help="Put the user's pods into this ClusterQueue; with --gpus, create it."
)
@click.option("--admin", is_flag=True, help="Give the user all rights in the cluster.")
@click.option(
    "--unix-account",
    default="",
    metavar="ACCOUNT",
    help="Run the user's pods as this account of the machine; it must exist here.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the kubeconfig to this file. Default: NAME.kubeconfig.",
)
@reaching
def add(
    name: str,
    gpus: int | None,
    gpu_class: str,
    queue: str,
    admin: bool,
    unix_account: str,
    output: Path | None,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Create a namespace, an account, rights and a kubeconfig for NAME.

    The user may create and delete pods, claims and Jobs in the namespace NAME, and see devices and queues of the whole
    cluster. With --gpus the namespace gets a queue named default, which its pods are put into: they use at most this
    quota, and more while other users leave theirs idle. Several users share a quota if the first is added with --queue
    and --gpus, and the others with --queue.

    \b
    Examples:
      dray user add ann --gpus 2
      dray user add bob --queue team-a --gpus 4
      dray user add tom --queue team-a
      dray user add eve --admin
      dray user add ann --gpus 2 --unix-account ann

    Exit status: 0 created, 1 the server refused, 2 it cannot be reached.
    """
    where = Where(kubeconfig, context, "")
    path = output or Path(f"{name}.kubeconfig")
    account = _account(unix_account) if unix_account else None

    async def work(cluster: Cluster) -> int:
        wanted = NewUser(name, gpus, gpu_class, queue, admin, account)
        if queue:
            await _check_queue(cluster, queue, new=gpus is not None)
        for document in wanted.objects():
            await _apply(cluster, document)
        token, authority = await _token(cluster, name)
        _write_kubeconfig(path, endpoint_of(where).server, name, token, authority)
        click.echo(f"user {name} created; kubeconfig: {path.absolute()}")
        click.echo(f"{name} runs: export KUBECONFIG={path.absolute()}")
        return 0

    ask(where, work)


def _account(name: str) -> tuple[int, int]:
    import pwd

    try:
        found = pwd.getpwnam(name)
    except KeyError:
        advice = f"create it with `useradd {name}`"
        raise click.ClickException(f"there is no account {name} on this machine; {advice}") from None
    if found.pw_uid == 0:
        raise click.ClickException("pods of a user cannot run as root: choose another account")
    return found.pw_uid, found.pw_gid


@user.command("list")
@output_option("table", "json", "yaml", "name")
@reaching
def list_(output: str, kubeconfig: Path | None, context: str) -> None:
    """List the users that `dray user add` created.

    \b
    Examples:
      dray user list
      dray user list -o json

    Exit status: 0 listed, 1 the server refused, 2 it cannot be reached.
    """

    async def work(cluster: Cluster) -> int:
        rows = []
        namespaces = await _labelled(cluster, "namespaces")
        queues = {_user_of(queue): queue for queue in await _labelled(cluster, "localqueues.kueue.x-k8s.io")}
        quotas = {metadata_of(quota)["name"]: quota for quota in await _all(cluster, "clusterqueues.kueue.x-k8s.io")}
        bindings = await _labelled(cluster, "clusterrolebindings")
        admins = {_user_of(binding) for binding in bindings if mapping(binding.get("roleRef")).get("name") == ADMIN}
        for namespace in namespaces:
            name = _user_of(namespace)
            queue = spec_of(queues[name]).get("clusterQueue", "") if name in queues else ""
            rights = "admin" if name in admins else "edit"
            rows.append((name, str(queue), _quota(quotas.get(queue)), rights))
        if output == "name":
            click.echo("".join(f"{name}\n" for name, *_ in rows), nl=False)
            return 0
        if output != "table":
            members = ("user", "queue", "gpus", "rights")
            click.echo(structured([dict(zip(members, row, strict=True)) for row in rows], output), nl=False)
            return 0
        for line in table(("User", "Queue", "GPUs", "Rights"), rows):
            click.echo(line)
        return 0

    ask(Where(kubeconfig, context, ""), work)


@user.command()
@click.argument("name", callback=_user_name)
@click.option("--yes", "-y", is_flag=True, help="Delete without asking.")
@reaching
def remove(name: str, yes: bool, kubeconfig: Path | None, context: str) -> None:
    """Delete the user NAME and everything in the user's namespace.

    This deletes the account, its rights, its queue and the namespace. Running pods of the user are stopped. The
    kubeconfig stops working at once.

    \b
    Examples:
      dray user remove ann
      dray user remove ann --yes

    Exit status: 0 removed, 1 there is no such user or the server refused, 2 it cannot be reached.
    """
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError(f"this deletes namespace {name} with all its pods and claims; confirm with --yes")
        click.confirm(f"delete namespace {name} with all its pods and claims?", abort=True)

    async def work(cluster: Cluster) -> int:
        found = [namespace for namespace in await _labelled(cluster, "namespaces") if _user_of(namespace) == name]
        if not found:
            raise click.ClickException(f"user {name} not found; `dray user list` shows the users")
        await _delete(cluster, "serviceaccounts", name, name)
        for kind in ("clusterrolebindings", "clusterqueues.kueue.x-k8s.io"):
            for obj in await _labelled(cluster, kind):
                if _user_of(obj) == name:
                    await _delete(cluster, kind, str(metadata_of(obj)["name"]))
        await _delete(cluster, "namespaces", name)
        click.echo(f"user {name} removed")
        return 0

    ask(Where(kubeconfig, context, ""), work)


async def _apply(cluster: Cluster, document: Object) -> None:
    from dray.client.interface import WriteOptions

    kind = (await cluster.catalog()).find(document["apiVersion"], document["kind"])
    if kind is None:
        raise click.ClickException(
            f"this cluster has no {document['kind']} ({document['apiVersion']}): queues need Kueue's definitions"
        )
    await cluster.client.apply(kind, document, options=WriteOptions(_FIELD_MANAGER, force=True))


async def _check_queue(cluster: Cluster, queue: str, *, new: bool) -> None:
    known = [str(metadata_of(found)["name"]) for found in await _all(cluster, "clusterqueues.kueue.x-k8s.io")]
    if new and queue in known:
        raise click.ClickException(f"ClusterQueue {queue} exists; leave out --gpus to put the user into it as it is")
    if not new and queue not in known:
        advice = "give --gpus COUNT to create it"
        raise click.ClickException(f"ClusterQueue {queue} not found; {suggestion(queue, known)}; {advice}")


async def _token(cluster: Cluster, name: str) -> tuple[str, bytes]:
    """Waits for the token and the certificate authority that a controller writes into the Secret."""
    secrets = (await cluster.kinds("secrets"))[0]
    async with asyncio.timeout(_TOKEN_SECONDS):
        while True:
            data = mapping((await cluster.client.get(secrets, token_name(name), namespace=name)).get("data"))
            if data.get("token"):
                return base64.b64decode(data["token"]).decode(), base64.b64decode(data.get("ca.crt", ""))
            await asyncio.sleep(0.1)


def _write_kubeconfig(path: Path, server: str, name: str, token: str, authority: bytes) -> None:
    from dray.server.security import kubeconfig

    document = (
        kubeconfig.secure(server, authority, token=token, name=name)
        if server.startswith("https:")
        else kubeconfig.plain(server, name=name)
    )
    document["contexts"][0]["context"]["namespace"] = name
    kubeconfig.write_kubeconfig(path, document)


async def _labelled(cluster: Cluster, kind: str) -> list[Object]:
    """Returns the objects of the kind that belong to users; none if the cluster does not have the kind."""
    return await _all(cluster, kind, USER_LABEL)


async def _all(cluster: Cluster, kind: str, labels: str = "") -> list[Object]:
    from dray.client.interface import Selection

    served = (await cluster.catalog()).named(kind)
    if not served:
        return []
    return list((await cluster.client.list_all(served[0], selection=Selection(labels=labels)))["items"])


async def _delete(cluster: Cluster, kind: str, name: str, namespace: str = "") -> None:
    from dray.client.errors import NotFound

    resource: ServedResource = (await cluster.kinds(kind))[0]
    try:
        await cluster.client.delete(resource, name, namespace=namespace)
    except NotFound:
        return


def _user_of(document: Any) -> str:
    return labels_of(document).get(USER_LABEL, "")


def _quota(cluster_queue: Object | None) -> str:
    if cluster_queue is None:
        return ""
    for group in mappings(spec_of(cluster_queue).get("resourceGroups")):
        for flavor in mappings(group.get("flavors")):
            if flavor.get("name") == FLAVOR:
                return str(mappings(flavor.get("resources"))[0].get("nominalQuota", ""))
    return ""
