"""`dray explain`: the whole reasoning about one claim or pod, as a tree."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from dray.allocation import POLICIES, examine
from dray.allocation.conclusions import conclude
from dray.allocation.text import Reasoning, concluding
from dray.api.objects import Object
from dray.cli.allocate import load
from dray.cli.cluster import Where, ask, located
from dray.cli.explanations import WRITERS, Explanation, allocation_row, rejection_row
from dray.cli.placement import Cluster, Placement
from dray.cli.reports import one_line
from dray.cli.wanted import Wanted

_KINDS: Final = {
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), "claim"),
}


@click.command()
@click.argument("target", metavar="CLAIM|POD")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--node", default="", metavar="NAME", help="Ask this node only.")
@click.option("--policy", type=click.Choice(sorted(POLICIES)), default="kubernetes", show_default=True)
@click.option("--output", "-o", type=click.Choice(list(WRITERS)), default="text", show_default=True)
@located
def explain(
    target: str,
    paths: tuple[str, ...],
    node: str,
    policy: str,
    output: str,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
) -> None:
    """Show how the devices of a claim or pod are chosen, or why it gets none.

    The target is a name, NAMESPACE/NAME, pod/NAME or claim/NAME. The first line concludes; below it stands what each
    node says, the one that came nearest first, nodes that say the same together.

    With PATH, which is as for dray allocate, it is looked for in files. What comes before the target in the files is
    placed first, as dray allocate does. Without PATH, or as in "dray explain pod NAME", it is a pod or claim of a
    running cluster: what stands in its way on every node, or what it holds.

    Exit status: 0 it fits, 1 it does not, 2 a file cannot be read, the server cannot be asked, or there is no such
    claim or pod.
    """
    kind, name = _live_target(target, paths)
    if name:
        from dray.cli.live import explain_live

        ask(
            Where(kubeconfig, context, namespace),
            lambda cluster: explain_live(cluster, kind, name, node, POLICIES[policy], WRITERS[output]),
        )
    cluster = load(paths, node)
    wanted = _find(cluster, target)
    for before in cluster.wanted:
        if before is wanted:
            break
        cluster.place(before, POLICIES[policy])
    explanation = _explained(cluster.ask(wanted, POLICIES[policy]), cluster)
    WRITERS[output](explanation)
    sys.exit(0 if explanation.good else 1)


def _live_target(target: str, paths: tuple[str, ...]) -> tuple[str, str]:
    """The kind, if it is said, and the name of what to look for in a running cluster; no name where files are meant."""
    if not paths:
        first, slash, rest = target.partition("/")
        kind = _KINDS.get(first.lower(), "") if slash else ""
        return (kind, rest) if kind else ("", target)
    if len(paths) == 1 and target.lower() in _KINDS and not os.path.exists(paths[0]):
        return _KINDS[target.lower()], paths[0]
    return "", ""


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


def _explained(placement: Placement, cluster: Cluster) -> Explanation:
    wanted, inventory = placement.wanted, cluster.inventory
    outcome = f"on node {placement.node}" if placement.fits else "does not fit"
    explanation = Explanation(wanted.kind, wanted.namespace, wanted.name, outcome, placement.fits)
    if not placement.fits:
        explanation.conclusion = _conclusion(placement, cluster)
    reasoning = Reasoning(inventory)
    trees = reasoning.trees(placement.rejections)
    if placement.allocation is not None:
        node = next(node for node in cluster.nodes if node["metadata"]["name"] == placement.node)
        reasons = examine(inventory, node, cluster.claims_on(wanted, node)[0])
        trees.insert(0, reasoning.considered(placement.allocation, reasons))
    explanation.trees = trees + reasoning.selectors()
    explanation.data = lambda: {"nodes": _rows(placement, cluster)}
    return explanation


def _rows(placement: Placement, cluster: Cluster) -> list[Object]:
    fitting = [allocation_row(placement.allocation)] if placement.allocation is not None else []
    return fitting + [rejection_row(each, cluster.inventory) for each in placement.rejections]


def _conclusion(placement: Placement, cluster: Cluster) -> str:
    wanted = placement.wanted
    if wanted.missing:
        return wanted.missing
    concluded = conclude(placement.rejections)
    if concluded is not None:
        return concluding(concluded, cluster.inventory)
    if wanted.node_name:
        return f"no node is eligible: there is no node {wanted.node_name}"
    if wanted.node_labels:
        labels = ", ".join(f"{key}={value}" for key, value in wanted.node_labels.items())
        return f"no node is eligible: none has the labels {labels}"
    return "no node is eligible"
