"""`explain`: why a pod, claim, group or workload has its devices, or why it waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.answers.allocate import listed_objects
from dray.answers.cluster import Cluster, Told
from dray.answers.errors import InvalidInput
from dray.answers.explaining.explanations import Explanation
from dray.answers.explaining.live import explain_live
from dray.answers.explaining.placement import ManifestCluster, read_cluster
from dray.answers.explaining.workload_explanations import WORKLOADS
from dray.answers.manifests.given import Manifests, read_given
from dray.answers.manifests.wanted import Wanted
from dray.answers.policies import policy_of
from dray.answers.source import Source

_KINDS: Final = {
    **{word: kind for kind, (_, words) in WORKLOADS.items() for word in words},
    **dict.fromkeys(("podgroup", "podgroups", "pg", "compositepodgroup", "compositepodgroups"), "podgroup"),
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), "claim"),
}


def explain(
    target: str,
    cluster: Cluster | None = None,
    *,
    manifests: Manifests = (),
    node: str = "",
    namespace: str = "",
    policy: str = "kubernetes",
    plugins: Sequence[str] = (),
) -> Explanation:
    """Returns why the target has its devices, or why it waits.

    The target is pod/NAME, claim/NAME, podgroup/NAME, a workload such as job/NAME, or the name of a pod or claim.
    Without manifests it is looked up in the cluster. With manifests it is looked up in them, and everything before it
    in the manifests is placed first, on the cluster if one is given. `node` limits the answer to this node. Raises
    InvalidInput if there is no such target or if manifests are wrong, and ClientError if a server does not answer.
    """
    if not target.strip("/ "):
        raise InvalidInput(["error: name a target, such as pod/NAME or job/NAME"])
    told, chosen = Told(), policy_of(policy)
    reading = read_given(manifests)
    if reading.manifests or reading.problems:
        base = cluster.ask(listed_objects) if cluster is not None else {}
        placing = read_cluster(reading, chosen, node, tuple(plugins), base, told.tell)
        made = explain_wanted(target, placing, namespace)
    else:
        kind, name = named_target(target)
        full = f"{namespace}/{name}" if namespace and "/" not in name else name

        async def question(source: Source) -> Explanation:
            return await explain_live(source, kind, full, node, chosen, tuple(plugins), told.tell)

        made = (cluster or Cluster.from_kubeconfig()).ask(question)
    made.notes = told.lines
    return made


def named_target(target: str) -> tuple[str, str]:
    """Returns the kind and the name of a target; the kind is empty if the target does not say it."""
    first, slash, rest = target.partition("/")
    kind = kind_of_word(first) if slash else ""
    return (kind, rest) if kind else ("", target)


def kind_of_word(word: str) -> str:
    """Returns pod, claim, podgroup (with its API group, if the word has one) or the kind of a workload; else empty."""
    name, dot, group = word.lower().partition(".")
    known = _KINDS.get(name, "")
    return f"{known}{dot}{group}" if known == "podgroup" else _KINDS.get(word.lower(), "")


def explain_wanted(target: str, cluster: ManifestCluster, namespace: str = "") -> Explanation:
    """Explains a claim or pod of manifests, after everything before it in the manifests is placed.

    `namespace` is for a target that has none; if it is empty too, the target is looked up in all namespaces.
    """
    wanted = _find(cluster, target, namespace)
    for before in cluster.wanted:
        if before is wanted:
            break
        cluster.place(before)
    return _explained(wanted, cluster)


def _find(cluster: ManifestCluster, target: str, namespace: str) -> Wanted:
    _, name = named_target(target)
    only = "" if "/" in name else namespace
    found = [wanted for wanted in cluster.wanted if only in ("", wanted.namespace) and wanted.matches(target)]
    if len(found) == 1:
        return found[0]
    if found:
        candidates, first = " or ".join(wanted.title for wanted in found), found[0]
        example = f"{first.kind}/{first.namespace}/{first.name}"
        problem = f"{target} may be {candidates}; say which, as in {example}"
    else:
        known = ", ".join(wanted.title for wanted in cluster.wanted) or "none"
        place = f"namespace {only} of the files" if only else "the files"
        problem = f"no claim or pod {target} in {place} needs devices; there are: {known}"
    raise InvalidInput([f"error: {problem}"])


def _explained(wanted: Wanted, cluster: ManifestCluster) -> Explanation:
    explanation = Explanation(wanted.kind, wanted.namespace, wanted.name, "does not fit", False, wanted.missing)
    if wanted.missing:
        return explanation
    answers = cluster.node_answers(wanted)
    if answers.chosen:
        explanation.outcome, explanation.good = f"on node {answers.chosen}", True
    else:
        explanation.conclusion, explanation.remedy = answers.conclusion(), answers.remedy()
    explanation.trees = list(answers.trees_of_choice())
    explanation.data = lambda: {"nodes": answers.rows()}
    return explanation
