"""`dray explain`: the whole reasoning about one claim or pod, as a tree."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Final

import click

from dray.allocation import POLICIES
from dray.cli.allocate import load
from dray.cli.cluster import Where, ask, located, snapshot_option
from dray.cli.explanations import Explanation, write
from dray.cli.output_formats import output_option
from dray.cli.placement import Cluster
from dray.cli.plugins import plugin_option
from dray.cli.policies import policy_option
from dray.cli.reports import one_line
from dray.cli.wanted import Wanted
from dray.cli.workload_explanations import WORKLOADS

_KINDS: Final = {
    **{word: kind for kind, (_, words) in WORKLOADS.items() for word in words},
    **dict.fromkeys(("podgroup", "podgroups", "pg", "compositepodgroup", "compositepodgroups"), "podgroup"),
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), "claim"),
}


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
        from dray.cli.live import explain_live

        show = partial(write, output=output)
        ask(
            Where(kubeconfig, context, namespace, snapshot),
            lambda cluster: explain_live(cluster, kind, name, node, POLICIES[policy], plugins, show),
        )
    cluster = load(paths, POLICIES[policy], node, plugins, snapshot)
    wanted = _find(cluster, target)
    for before in cluster.wanted:
        if before is wanted:
            break
        cluster.place(before)
    explanation = _explained(wanted, cluster)
    write(explanation, output)
    sys.exit(0 if explanation.good else 1)


def _live_target(target: str, paths: tuple[str, ...]) -> tuple[str, str]:
    """The kind, if it is said, and the name of what to look for in a running cluster; no name where files are meant."""
    if not paths:
        first, slash, rest = target.partition("/")
        kind = _kind(first) if slash else ""
        return (kind, rest) if kind else ("", target)
    if len(paths) == 1 and (kind := _kind(target)) and not os.path.exists(paths[0]):
        return kind, paths[0]
    return "", ""


def _kind(word: str) -> str:
    """Returns pod, claim, podgroup (with an API group where it has one) or a workload's kind; else empty."""
    name, dot, group = word.lower().partition(".")
    known = _KINDS.get(name, "")
    return f"{known}{dot}{group}" if known == "podgroup" else _KINDS.get(word.lower(), "")


def _find(cluster: Cluster, target: str) -> Wanted:
    found = [wanted for wanted in cluster.wanted if wanted.answers_to(target)]
    if len(found) == 1:
        return found[0]
    if found:
        problem = f"{target} may be {' or '.join(each.title for each in found)}; say which, as in pod/{target}"
    else:
        known = ", ".join(each.title for each in cluster.wanted) or "none"
        problem = f"no claim or pod {target} in the files needs devices; there are: {known}"
    click.echo(one_line(f"error: {problem}"), err=True)
    sys.exit(2)


def _explained(wanted: Wanted, cluster: Cluster) -> Explanation:
    explanation = Explanation(wanted.kind, wanted.namespace, wanted.name, "does not fit", False, wanted.missing)
    if wanted.missing:
        return explanation
    answers = cluster.ask(wanted)
    if answers.chosen:
        explanation.outcome, explanation.good = f"on node {answers.chosen}", True
    else:
        explanation.conclusion, explanation.remedy = answers.conclusion(), answers.remedy()
    explanation.trees = list(answers.trees_of_choice())
    explanation.data = lambda: {"nodes": answers.rows()}
    return explanation
