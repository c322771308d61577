"""`dray attach`: the output, and on request the input, of a command that runs already."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Final

import click

from dray.cli.cluster import Cluster, Where, ask, located
from dray.cli.status_line import StatusLine

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command()
@click.argument("pod")
@click.option("--container", "-c", default="", metavar="NAME", help="Container name. Default: the first one.")
@click.option("--stdin", "-i", "input_", is_flag=True, help="Connect the input of the container.")
@click.option("--tty", "-t", "terminal", is_flag=True, help="Connect this terminal to the terminal of the container.")
@located
def attach(
    pod: str, container: str, input_: bool, terminal: bool, kubeconfig: Path | None, context: str, namespace: str
) -> None:
    """Follow a pod that `dray run --detach` started, and end with the exit status of its command.

    Prints what the pod waits for, and the output of its command from the beginning. Ctrl-C leaves the pod running.

    \b
    Examples:
      dray attach run-4htgh
      dray attach -it notebook

    Exit status: that of the command; 1 the pod does not exist or was deleted, 2 the server cannot be reached, 127 the
    command cannot be started, 130 interrupted.
    """

    async def work(cluster: Cluster) -> int:
        from dray.api.objects import mappings, spec_of
        from dray.cli.pod_following import Following, Streams, handling
        from dray.cli.pod_log import PODS
        from dray.cli.pod_watch import PodWatch

        found = await cluster.client.get(PODS, pod.removeprefix("pod/"), namespace=cluster.namespace)
        chosen = container or str(mappings(spec_of(found)["containers"])[0]["name"])
        line = StatusLine()
        watch = PodWatch(cluster.client, found)
        streams = Streams(input_, terminal)
        following = Following(cluster, watch, line, chosen, streams, frozenset({*_SIGNALS, signal.SIGPIPE}))
        with handling(_SIGNALS, following.signalled):
            async with watch.following():
                if await following.until_started(None):
                    status = await following.until_ended()
                else:
                    status = 128 + following.signals[0]
        if following.left and not watch.gone:
            line.say(f"{watch.name}: keeps running; `dray attach {watch.name}` follows it again")
        line.clear()
        return status

    ask(Where(kubeconfig, context, namespace), work)
