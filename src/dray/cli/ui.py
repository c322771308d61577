"""`dray ui`: the web page for any cluster, or a sign-in code for the page of `dray up`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dray.answers.one_line import one_line
from dray.cli.cluster import Where, ending, reaching
from dray.cli.serving import failing_plainly, stopping

if TYPE_CHECKING:
    from dray.client.api import ApiClient
    from dray.client.discovery import ServedResource
    from dray.client.endpoint import Endpoint
    from dray.web.access import Identity
    from dray.web.page import Page

_MOST_NAMESPACES: Final = 200
_VALID: Final = "good once, for 10 minutes"


@click.command()
@click.option("--port", default=8100, show_default=True, help="Port to listen on; 0: any free port.")
@click.option(
    "--code", is_flag=True, help="Print a sign-in code for the page that the cluster itself serves, and exit."
)
@reaching
def ui(port: int, code: bool, kubeconfig: Path | None, context: str) -> None:
    """Show devices, queues and pending pods in a web page.

    It serves the page on this machine, at http://127.0.0.1:8100/ui, until interrupted, and prints a sign-in code. The
    page shows and changes what the user of the kubeconfig may. Other users of this machine cannot sign in without a
    code. Press Enter for another code.

    A cluster of `dray up` serves the page itself, at /ui of its address. --code prints a code to sign in there.

    \b
    Examples:
      dray ui
      dray ui --kubeconfig lab.kubeconfig --port 9000
      dray ui --code

    Exit status: 0 interrupted, 1 the server refused, 2 the server cannot be reached or the port is in use.
    """
    where = Where(kubeconfig, context, "")
    if code:
        ending(where, lambda endpoint: asyncio.run(_print_code(endpoint)))
    with failing_plainly():
        ending(where, lambda endpoint: asyncio.run(_serve(endpoint, context, port)))


async def _print_code(endpoint: Endpoint) -> int:
    from dray.client.http import HttpTransport
    from dray.client.transport import Request

    transport = HttpTransport(endpoint)
    try:
        answer = await transport.send(Request("POST", "/ui/code", headers={"x-dray-page": "1"}))
    finally:
        await transport.close()
    if answer.status != 200:
        click.echo(f"error: {endpoint.server} has no page of its own; `dray ui` serves one for it", err=True)
        return 1
    click.echo(f"open {endpoint.server}/ui")
    click.echo(f"sign-in code: {one_line(str(json.loads(answer.body)['code']))} ({_VALID})")
    return 0


async def _serve(endpoint: Endpoint, context: str, port: int) -> int:
    from dray.cli.page import services
    from dray.client.api import ApiClient
    from dray.client.http import HttpTransport
    from dray.web.access import CodesOnly
    from dray.web.history.recorder import recording
    from dray.web.model import Model
    from dray.web.page import Page
    from dray.web.views import VIEWS

    transport = HttpTransport(endpoint)
    client = ApiClient(transport)
    try:
        viewer = await _viewer(client)
        model = Model(client, reach=partial(_reach, client, endpoint.namespace))
        given = services(context or endpoint.server)
        page = Page(VIEWS, model, CodesOnly(), services=given, loopback=True)
        try:
            # Whoever starts it is about to look.
            page.warm(viewer)
            async with recording(model, given.history, given.layouts):
                await _listen(page, viewer, port)
        finally:
            await page.close()
    finally:
        await transport.close()
    return 0


async def _listen(page: Page, viewer: Identity, port: int) -> None:
    import uvicorn

    from dray.server.connections import Connections, most_connections
    from dray.server.http_protocol import LimitedProtocol
    from dray.server.listening import listen
    from dray.server.running import PatientServer

    bound = listen("127.0.0.1", port)
    stop = stopping()
    config = uvicorn.Config(
        page,
        http=partial(LimitedProtocol, connections=Connections(most_connections())),  # type: ignore[arg-type] # it is called
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    server = PatientServer(config, page)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    click.echo(f"page of {viewer.name} at http://127.0.0.1:{bound.getsockname()[1]}/ui")
    _announce(page, viewer)
    loop = asyncio.get_running_loop()
    if sys.stdin.isatty():
        loop.add_reader(sys.stdin, partial(_announce_again, page, viewer))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    stopped.cancel()
    await asyncio.gather(serving, stopped, return_exceptions=True)


def _announce(page: Page, viewer: Identity) -> None:
    again = "; Enter prints another" if sys.stdin.isatty() else ""
    click.echo(f"sign-in code: {page.codes.issue(viewer)} ({_VALID}{again})")


def _announce_again(page: Page, viewer: Identity) -> None:
    if sys.stdin.readline():
        _announce(page, viewer)
    else:
        # The terminal is gone.
        asyncio.get_running_loop().remove_reader(sys.stdin)


async def _viewer(client: ApiClient) -> Identity:
    """Returns the identity of the kubeconfig's user."""
    from dray.client.interface import GroupVersionResource
    from dray.web.access import Identity

    reviews = GroupVersionResource("authentication.k8s.io", "v1", "selfsubjectreviews")
    answer = await client.create(reviews, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    name = str(answer["status"]["userInfo"].get("username") or "unknown")
    return Identity(name, name, client, lambda: True)


async def _reach(client: ApiClient, namespace: str, resource: ServedResource) -> Sequence[str]:
    """Returns the namespaces in which the user may list a resource; [""] for all."""
    from dray.api.catalogue import built_in
    from dray.api.objects import key_of
    from dray.client.errors import ApiError
    from dray.web.rights import review

    if not resource.namespaced or await review(client, "list", resource):
        return ("",)
    try:
        listed = (await client.list_all(built_in("v1", "Namespace")))["items"]
        names = [key_of(item)[1] for item in listed][:_MOST_NAMESPACES]
    except ApiError:
        names = [namespace or "default"]
    return [name for name in names if await review(client, "list", resource, name)]
