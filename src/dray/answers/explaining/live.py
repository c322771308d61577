"""`dray explain` of a pod, claim, group or workload of a running cluster.

It lists once everything that the scheduler reads, fills a scheduler with it, and checks every node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dray.allocation.policies import Policy
from dray.allocation.text import Tree
from dray.answers.errors import InvalidInput
from dray.answers.explaining import remedies
from dray.answers.explaining.explanation_trees import NodeAnswers, claim_tree, few
from dray.answers.explaining.explanations import Explanation
from dray.answers.explaining.group_explanations import conclusion, group_explanation, group_row, group_trees
from dray.answers.explaining.queue_explainer import QueueExplainer
from dray.answers.explaining.queue_texts import queue_text
from dray.answers.explaining.unread_kinds import REMEDY, cannot_tell
from dray.answers.explaining.workload_explanations import WORKLOADS
from dray.answers.manifests.wanted import wanted_claim
from dray.answers.readable_objects import telling_unreadable
from dray.answers.schedulers import make_scheduler
from dray.answers.source import Source, Tell
from dray.api.objects import Object, condition_of, is_deleting, key_of
from dray.api.pods import (
    claim_entries,
    claims_used,
    entries_without_claim,
    extended_claim,
    is_terminal,
    node_of,
    phase_of,
)
from dray.api.resource_claims import allocation_of
from dray.api.suggestions import did_you_mean, suggestion
from dray.api.volumes import claims_of
from dray.scheduling.core.pods import read
from dray.scheduling.explain.explainer import GroupExplainer
from dray.scheduling.groups.front_ends import FRONT_ENDS, group_of
from dray.scheduling.model.messages import reason_text
from dray.scheduling.scheduler import Options, Scheduler
from dray.snapshot.listing import Listed, fill, listed

GROUP: Final = "podgroup"
_MOST_EXPLAINED: Final = 5
"""How many pods of a workload are explained."""
_CREATION_FAILED: Final = "FailedResourceClaimCreation"


async def explain_live(
    cluster: Source,
    kind: str,
    target: str,
    node: str,
    policy: Policy,
    plugins: tuple[str, ...],
    tell: Tell,
) -> Explanation:
    """Returns why the target has its devices, or why it waits. An empty `kind` means a pod or a claim."""
    namespace, _, name = target.rpartition("/")
    listing = await listed(cluster.client)
    objects = ListedCluster(listing, namespace or cluster.namespace, policy, cluster.now(), plugins, tell)
    if kind.startswith(GROUP):
        return objects.explain_group(name, kind.removeprefix(GROUP).removeprefix("."))
    if kind in WORKLOADS:
        return await _explain_workload(cluster, objects, kind, name, node)
    chosen = [kind] if kind else ["pod", "claim"]
    found = [candidate for candidate in chosen if objects.get(candidate, name) is not None]
    if len(found) > 1 and _owns(objects.get("pod", name), objects.get("claim", name)):
        # A claim of `dray run` has the name of its pod.
        found = ["pod"]
    if len(found) != 1:
        raise InvalidInput([_target_error(kind, objects.namespace, name, found)])
    if found == ["pod"]:
        return await _explain_pod(cluster, objects, name, node)
    return objects.explain_claim(name, node)


async def _explain_pod(cluster: Source, objects: ListedCluster, name: str, node: str) -> Explanation:
    """Explains a pod, with its Warning events and the last log line of a container that fails."""
    from dray.answers.explaining.pod_failures import last_warning, problem_of

    made, document = objects.explain_pod(name, node), objects.get("pod", name)
    assert document is not None
    if made.awaits_claims and (why := await last_warning(cluster, objects.namespace, name, reason=_CREATION_FAILED)):
        made.trees.append(Tree(why))
    if not node_of(document):
        for key, _ in claims_of(document):
            if why := await last_warning(cluster, *key, kind="PersistentVolumeClaim"):
                made.trees.append(Tree(f"PersistentVolumeClaim {key[1]}: {why}"))
    if (node_of(document) or is_terminal(document)) and (problem := await problem_of(cluster, document)):
        made.conclusion, made.good = problem, False
    return made


async def _explain_workload(cluster: Source, objects: ListedCluster, kind: str, name: str, node: str) -> Explanation:
    """Explains a workload from the explanations of its pods."""
    from dray.answers.explaining.workload_explanations import explain_workload, find_workload
    from dray.client.errors import NotFound

    try:
        workload = await find_workload(cluster, kind, objects.namespace, name, objects.pods())
    except NotFound:
        raise InvalidInput(
            [f"{kind} {name} not found in namespace {objects.namespace}; -n chooses another namespace"]
        ) from None
    names = [pod["metadata"]["name"] for pod in workload.pods[:_MOST_EXPLAINED]]
    explained = [await _explain_pod(cluster, objects, pod_name, node) for pod_name in names]
    return await explain_workload(cluster, workload, explained)


def _owns(pod: Object | None, claim: Object | None) -> bool:
    """Returns whether the pod owns the claim."""
    if pod is None or claim is None:
        return False
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == pod["metadata"]["uid"] for owner in owners)


def _target_error(kind: str, namespace: str, name: str, found: list[str]) -> str:
    if found:
        return f"{name} may be a pod or a claim; say which, as in pod/{name}"
    return f"{kind or 'pod or claim'} {name} not found in namespace {namespace}; -n chooses another namespace"


class ListedCluster:
    """The listed objects of a cluster, and explanations of the pods, groups and claims in one namespace."""

    def __init__(
        self, listing: Listed, namespace: str, policy: Policy, now: float, plugins: tuple[str, ...], tell: Tell
    ) -> None:
        self.namespace = namespace
        self._listing = listing
        self._objects = listing.objects
        self._policy = policy
        self._plugins = plugins
        self._now = now
        self._tell = tell

    def get(self, kind: str, name: str) -> Object | None:
        """Returns a pod or a claim of the namespace; None if there is none of the name."""
        objects = self._objects["Pod" if kind == "pod" else "ResourceClaim"]
        key = (self.namespace, name)
        return next((obj for obj in objects if key_of(obj) == key), None)

    def pods(self) -> list[Object]:
        """Returns the pods of the namespace."""
        return [pod for pod in self._objects["Pod"] if key_of(pod)[0] == self.namespace]

    def scheduler(self, name: str, *, adopting: bool = False) -> Scheduler:
        """Returns a scheduler of that name; with `adopting` it treats the pods of all schedulers as its own."""
        scheduler = make_scheduler(Options(name, policy=self._policy), self._plugins, self._tell)
        fill(scheduler, self._objects, self._now, telling_unreadable(self._tell), adopting=adopting)
        return scheduler

    def _claims_of(self, document: Object) -> Iterator[Object]:
        """Yields the claims that the pod uses and that exist."""
        for name in _claim_names(document):
            if (claim := self.get("claim", name)) is not None:
                yield claim

    # Pods

    def explain_pod(self, name: str, node: str) -> Explanation:
        document = self.get("pod", name)
        assert document is not None
        if is_terminal(document):
            return self._explanation("pod", name, f"has ended ({phase_of(document)})", good=True)
        if place := node_of(document):
            made = self._explanation("pod", name, f"on node {place}", good=True)
            made.trees = [claim_tree(claim) for claim in self._claims_of(document)] or [Tree("it has no claims")]
            made.data = lambda: {"node": place, "claims": list(self._claims_of(document))}
            return made
        if gates := document["spec"].get("schedulingGates"):
            names = few([gate["name"] for gate in gates])
            return self._explanation("pod", name, "waits until its scheduling gates are removed", names)
        if is_deleting(document):
            return self._explanation("pod", name, "is being deleted")
        return self._explain_waiting(document, node)

    def _explanation(
        self, kind: str, name: str, outcome: str, conclusion: str = "", *, good: bool = False
    ) -> Explanation:
        return Explanation(kind, self.namespace, name, outcome, good, conclusion)

    def _explain_waiting(self, document: Object, only: str) -> Explanation:
        name = document["metadata"]["name"]
        if missing := self._missing_template(document) or self._missing_claim(document):
            return self._explanation("pod", name, "cannot be placed", missing)
        if unread := self._listing.unread_for(document):
            made = self._explanation("pod", name, "cannot tell whether it fits", f"may not read {', '.join(unread)}")
            made.trees += map(Tree, (*unread.values(), REMEDY))
            return made
        made = self._explain_nodes(document, only)
        made.trees += map(Tree, self._listing.notes_for(document))
        return made

    def _explain_nodes(self, document: Object, only: str) -> Explanation:
        name = document["metadata"]["name"]
        nodes = self._node_answers(document, only)
        if nodes.problem:
            made = self._explanation("pod", name, "cannot be placed", nodes.problem)
            made.awaits_claims = bool(self._templates_without_claim(document))
            self._add_group(made, document)
            made.remedy = remedies.of_text(made.conclusion)
            _add_queue(made, nodes.scheduler, document)
            return made
        fitting = nodes.fitting
        outcome = f"fits on {few(fitting)}" if fitting else "does not fit"
        made = self._explanation("pod", name, outcome, good=bool(fitting))
        _add_nodes(made, nodes)
        if not fitting:
            _add_queue(made, nodes.scheduler, document)
        if fitting and not only:
            made.trees.append(Tree("its scheduler has not tried it since, or does not run"))
            if said := str((condition_of(document, "PodScheduled") or {}).get("message") or ""):
                # Only the scheduler itself knows its reservations.
                made.trees.append(Tree(f"last message of its scheduler: {said}"))
        return made

    def _node_answers(self, document: Object, only: str) -> NodeAnswers:
        """Returns what all nodes, or only one of them, answer about a pod that waits."""
        scheduler = self.scheduler(document["spec"].get("schedulerName") or "default-scheduler")
        nodes = NodeAnswers(scheduler, read(document, scheduler.state.signatures), self._now, only)
        if only and not nodes.problem and not nodes.nodes:
            known = [str(node["metadata"]["name"]) for node in self._objects["Node"]]
            raise InvalidInput([f"node {only} not found; {suggestion(only, known)}"])
        return nodes

    # Groups

    def explain_group(self, name: str, api: str) -> Explanation:
        """Explains a group; `api` is the API group of its kind, or empty if only one kind has a group of that name."""
        listed_front_ends = [front_end for kind, front_end in FRONT_ENDS.items() if kind in self._objects]
        kinds = {(end.api_group, end.kind) for end in listed_front_ends if api in ("", end.api_group)}
        pods = [pod for pod in self.pods() if (key := group_of(pod)) and key.name == name]
        scheduler = self.scheduler(_scheduler_name(pods))
        wanted = (self.namespace, name)
        known = scheduler.state.groups.forest.all()
        found = [group for group in known if group.key[1:3] == wanted and (group.key.api, group.key.kind) in kinds]
        if len(found) != 1:
            several = f"; say which, as in {GROUP}.{found[0].key.api}/{name}" if found else ""
            number = f"there are {len(found)} groups" if found else "there is no PodGroup"
            unread = {kind: said for kind, said in self._listing.unread.items() if kind in FRONT_ENDS}
            if unread and not found:
                question = f"whether PodGroup {name} exists in namespace {self.namespace}"
                raise InvalidInput(cannot_tell(question, unread))
            raise InvalidInput([f"{number} {name} in namespace {self.namespace}{several}"])
        return group_explanation(
            "group", GroupExplainer(scheduler, QueueExplainer(scheduler).answer).explain(found[0], self._now)
        )

    def _add_group(self, made: Explanation, document: Object) -> None:
        """Adds to the explanation of a pod why its group waits, if it is in a group."""
        scheduler = self.scheduler(_scheduler_name([document]))
        group = scheduler.state.groups.of(read(document, scheduler.state.signatures))
        if group is not None:
            found = GroupExplainer(scheduler, QueueExplainer(scheduler).answer).explain(group, self._now)
            made.conclusion = conclusion(found) or made.conclusion
            made.trees = [Tree(f"PodGroup {found.group.key.title}", group_trees(found))]
            made.data = lambda: {"group": group_row(found)}

    def _templates_without_claim(self, document: Object) -> list[str]:
        """Returns the templates from which the pod still waits for claims."""
        return [entry["resourceClaimTemplateName"] for entry in entries_without_claim(document)]

    def _missing_template(self, document: Object) -> str:
        """Returns a message about a template that does not exist; empty if all exist or none may be read."""
        if "ResourceClaimTemplate" not in self._objects:
            return ""
        return self._missing("ResourceClaimTemplate", self._templates_without_claim(document))

    def _missing_claim(self, document: Object) -> str:
        """Returns a message about a claim that the pod names and that does not exist; empty if all exist."""
        names = [str(name) for entry in claim_entries(document) if (name := entry.get("resourceClaimName"))]
        return self._missing("ResourceClaim", names)

    def _missing(self, kind: str, wanted: list[str]) -> str:
        """Returns a message about the first name that is not in the namespace, with what may be meant."""
        known = {key_of(obj) for obj in self._objects[kind]}
        name = next((missing for missing in wanted if (self.namespace, missing) not in known), "")
        if not name:
            return ""
        elsewhere = [namespace for namespace, other in sorted(known) if other == name]
        similar = did_you_mean(name, (other for namespace, other in known if namespace == self.namespace))
        hint = f"create it in namespace {self.namespace}, or correct the name"
        if elsewhere:
            hint = f"it is in namespace {elsewhere[0]}, and a pod uses objects of its own namespace only"
        return f"{kind} {self.namespace}/{name} not found; {similar if similar and not elsewhere else hint}"

    # Claims

    def explain_claim(self, name: str, only: str) -> Explanation:
        claim = self.get("claim", name)
        assert claim is not None
        users = [pod for pod in self.pods() if name in _claim_names(pod)]
        if allocation_of(claim):
            made = self._explanation("claim", name, "allocated", good=True)
            made.trees, made.data = claim_tree(claim).branches, lambda: {"claims": [claim]}
            return made
        waiting = [pod["metadata"]["name"] for pod in users if not pod["spec"].get("nodeName")]
        why = f"pending pods that use it: {few(waiting)}" if waiting else "no pod uses it"
        made = self._explanation("claim", name, f"not allocated; {why}")
        _add_nodes(made, self._node_answers(wanted_claim(claim).pod, only))
        return made


def _claim_names(pod: Object) -> list[str]:
    """Returns the names of all claims that the pod uses."""
    names = (*(name for _, name in claims_used(pod)), extended_claim(pod))
    return [name for name in names if name]


def _scheduler_name(pods: list[Object]) -> str:
    return next((str(name) for pod in pods if (name := pod["spec"].get("schedulerName"))), Options().name)


def _add_nodes(made: Explanation, nodes: NodeAnswers) -> None:
    if not nodes.fitting:
        made.conclusion, made.remedy = nodes.conclusion(), nodes.remedy()
    made.trees, made.data = list(nodes.trees()), lambda: {"nodes": nodes.rows()}


def _add_queue(made: Explanation, scheduler: Scheduler, document: Object) -> None:
    """Adds to the explanation of a pod without a group which queues use the quota, and why no pods are evicted."""
    pod = read(document, scheduler.state.signatures)
    answer = QueueExplainer(scheduler).answer([pod]) if scheduler.state.groups.of(pod) is None else None
    if answer is None:
        return
    if answer.problem is None and answer.excess is not None:
        made.trees.append(Tree(f"queue: {queue_text(answer)}"))
    elif answer.problem is not None and made.conclusion == reason_text(answer.problem):
        made.conclusion = queue_text(answer)
        made.data = lambda: {"queue": {"name": answer.queue, "message": queue_text(answer)}}
