"""`dray explain`: the whole reasoning about one claim or pod, as a tree."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from dray.allocation import POLICIES
from dray.cli.allocate import load
from dray.cli.cluster import Where, ask, located
from dray.cli.explanations import WRITERS, Explanation
from dray.cli.placement import Cluster
from dray.cli.plugins import plugin_option
from dray.cli.reports import one_line
from dray.cli.wanted import Wanted

_KINDS: Final = {
    **dict.fromkeys(("podgroup", "podgroups", "pg", "compositepodgroup", "compositepodgroups"), "podgroup"),
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), "claim"),
}


@click.command()
@click.argument("target", metavar="CLAIM|POD|GROUP")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--node", default="", metavar="NAME", help="Ask this node only.")
@click.option("--policy", type=click.Choice(sorted(POLICIES)), default="kubernetes", show_default=True)
@click.option("--output", "-o", type=click.Choice(list(WRITERS)), default="text", show_default=True)
@plugin_option
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
) -> None:
    """Show how the devices of a claim or pod are chosen, or why it gets none.

    The target is a name, NAMESPACE/NAME, pod/NAME, claim/NAME or podgroup/NAME. The first line concludes; below it
    stands what each node says, the one that came nearest first, nodes that say the same together.

    With PATH, which is as for dray allocate, it is looked for in files. What comes before the target in the files is
    placed first, as dray allocate does. Without PATH, or as in "dray explain pod NAME", it is a pod or claim of a
    running cluster: what stands in its way on every node, or what it holds. Name the plugins that its scheduler has.

    A group is always one of a running cluster: how many pods it has, whether its queue lets them in, which domain is
    best and for how many there is a place, and what the next pod lacks there.

    Exit status: 0 it fits, 1 it does not, 2 a file cannot be read, the server cannot be asked, or there is no such
    claim or pod.
    """
    kind, name = _live_target(target, paths)
    if name:
        from dray.cli.live import explain_live

        ask(
            Where(kubeconfig, context, namespace),
            lambda cluster: explain_live(cluster, kind, name, node, POLICIES[policy], plugins, WRITERS[output]),
        )
    cluster = load(paths, POLICIES[policy], node, plugins)
    wanted = _find(cluster, target)
    for before in cluster.wanted:
        if before is wanted:
            break
        cluster.place(before)
    explanation = _explained(wanted, cluster)
    WRITERS[output](explanation)
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
    """pod, claim or podgroup, the last with an API group where it has one; empty for anything else."""
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
        problem = f"there is no claim or pod {target} that wants devices; there are: {known}"
    click.echo(one_line(problem), err=True)
    sys.exit(2)


def _explained(wanted: Wanted, cluster: Cluster) -> Explanation:
    explanation = Explanation(wanted.kind, wanted.namespace, wanted.name, "does not fit", False, wanted.missing)
    if wanted.missing:
        return explanation
    answers = cluster.ask(wanted)
    if answers.chosen:
        explanation.outcome, explanation.good = f"on node {answers.chosen}", True
    else:
        explanation.conclusion = answers.conclusion()
    explanation.trees = list(answers.trees_of_choice())
    explanation.data = lambda: {"nodes": answers.rows()}
    return explanation
