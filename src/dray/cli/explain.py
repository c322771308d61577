"""`dray explain`: the whole reasoning about one claim or pod, as a tree."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from dray.allocation import POLICIES
from dray.answers.explain import explain_wanted, kind_of_word, named_target
from dray.answers.explaining.explanations import Explanation
from dray.answers.explaining.live import explain_live
from dray.answers.explaining.placement import read_cluster
from dray.answers.manifests.reading import read
from dray.cli.allocate import asked, snapshot_objects
from dray.cli.cluster import Cluster, Where, ask, located, snapshot_option
from dray.cli.output_formats import output_option, structured
from dray.cli.plugins import plugin_option
from dray.cli.policies import policy_option
from dray.cli.warnings import warn


@click.command()
@click.argument("target", metavar="CLAIM|POD|GROUP|WORKLOAD")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--node", default="", metavar="NAME", help="Consider this node only.")
@policy_option
@output_option("text", "json", "yaml")
@plugin_option
@snapshot_option
@located
def explain(
    target: str,
    paths: tuple[str, ...],
    node: str,
    policy: str,
    output: str,
    plugins: tuple[str, ...],
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    snapshot: Path | None,
) -> None:
    """Explain why a pod or claim got its devices, or why it is pending.

    The target is a name, NAMESPACE/NAME, pod/NAME, claim/NAME, podgroup/NAME, or a workload such as job/NAME or
    deployment/NAME. The first line is the conclusion. Then follow the reasons of each node, the nearest node first;
    nodes with the same reasons are grouped.

    A pod whose container fails is explained by the message and the last line of its log, and a workload by its pods,
    or by what keeps it from creating any.

    Without PATH the target is looked up in the running cluster. If its scheduler uses plugins, name them with --plugin.
    With PATH, as in `dray allocate`, the target is looked up in files, and everything before it in the files is placed
    first. With --snapshot the cluster is read from a file of `dray snapshot`.

    A group is always looked up in the running cluster. The output says how many pods it has, whether its queue admits
    them, which domain is best, how many pods fit there, and what the next pod lacks.

    \b
    Examples:
      dray explain pod/training
      dray explain claim training-gpus -n team-a
      dray explain training examples/lab examples/claims -o json
      dray explain pod/training --snapshot monday.snapshot

    Exit status: 0 it fits, 1 it does not fit, 2 a file cannot be read, the server cannot be reached, or the target does
    not exist.
    """
    kind, name = _live_target(target, paths)
    if name:

        async def work(cluster: Cluster) -> int:
            return _show(await explain_live(cluster, kind, name, node, POLICIES[policy], plugins, warn), output)

        ask(Where(kubeconfig, context, namespace, snapshot), work)
    base = snapshot_objects(snapshot) if snapshot is not None else {}
    reading = read(paths)
    cluster = asked(lambda: read_cluster(reading, POLICIES[policy], node, plugins, base, warn))
    sys.exit(_show(asked(lambda: explain_wanted(target, cluster, namespace)), output))


def _show(explanation: Explanation, output: str) -> int:
    shown = explanation.text if output == "text" else structured(explanation.document, output)
    click.echo(shown, nl=False)
    return 0 if explanation.fits else 1


def _live_target(target: str, paths: tuple[str, ...]) -> tuple[str, str]:
    """The kind, if it is said, and the name of what to look for in a running cluster; no name where files are meant."""
    if not paths:
        return named_target(target)
    if len(paths) == 1 and (kind := kind_of_word(target)) and not os.path.exists(paths[0]):
        return kind, paths[0]
    return "", ""
