"""`dray explain` of a pod or claim of a running cluster.

Everything the scheduler would look at is listed once and given to the scheduler's own core, and every node is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dray.allocation.policies import Policy
from dray.allocation.text import Tree
from dray.answers.asked_schedulers import asked_scheduler
from dray.answers.errors import InvalidInput
from dray.answers.explaining import remedies
from dray.answers.explaining.explanation_trees import NodeAnswers, few, holding
from dray.answers.explaining.explanations import Explanation
from dray.answers.explaining.group_explanations import conclusion, group_row, group_trees, say_group
from dray.answers.explaining.queue_explainer import QueueExplainer
from dray.answers.explaining.queue_texts import queue_text
from dray.answers.explaining.unread_kinds import REMEDY, cannot_tell
from dray.answers.explaining.workload_explanations import WORKLOADS
from dray.answers.manifests.wanted import claim as wanted_claim
from dray.answers.readable_objects import telling_unreadable
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
"""Pods of a workload that are explained."""
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
    """Returns why the target has its devices, or waits. `kind` is empty where it is to be found out."""
    namespace, _, name = target.rpartition("/")
    world = World(await listed(cluster.client), namespace or cluster.namespace, policy, cluster.now(), plugins, tell)
    if kind.startswith(GROUP):
        return world.group(name, kind.removeprefix(GROUP).removeprefix("."))
    if kind in WORKLOADS:
        return await _workload(cluster, world, kind, name, node)
    found = [each for each in ("pod", "claim") if kind in ("", each) and world.get(each, name) is not None]
    if len(found) > 1 and _belongs(world.get("claim", name), world.get("pod", name)):
        # A claim of `dray run` has the name of its pod.
        found = ["pod"]
    if len(found) != 1:
        raise InvalidInput([_confusion(kind, world.namespace, name, found)])
    return await _pod(cluster, world, name, node) if found[0] == "pod" else world.claim(name, node)


async def _pod(cluster: Source, world: World, name: str, node: str) -> Explanation:
    """The pod with what only the server knows: events, and the last line of a container that fails."""
    from dray.answers.explaining.pod_failures import last_warning, problem_of

    made, document = world.pod(name, node), world.get("pod", name)
    assert document is not None
    if made.unmade and (why := await last_warning(cluster, world.namespace, name, reason=_CREATION_FAILED)):
        made.trees.append(Tree(why))
    if not node_of(document):
        for key, _ in claims_of(document):
            if why := await last_warning(cluster, *key, kind="PersistentVolumeClaim"):
                made.trees.append(Tree(f"PersistentVolumeClaim {key[1]}: {why}"))
    if (node_of(document) or is_terminal(document)) and (problem := await problem_of(cluster, document)):
        made.conclusion, made.good = problem, False
    return made


async def _workload(cluster: Source, world: World, kind: str, name: str, node: str) -> Explanation:
    """The workload by its pods."""
    from dray.answers.explaining.workload_explanations import explain_workload, find_workload
    from dray.client.errors import NotFound

    try:
        workload = await find_workload(cluster, kind, world.namespace, name, world.pods())
    except NotFound:
        raise InvalidInput(
            [f"{kind} {name} not found in namespace {world.namespace}; -n chooses another namespace"]
        ) from None
    explained = [await _pod(cluster, world, each["metadata"]["name"], node) for each in workload.pods[:_MOST_EXPLAINED]]
    return await explain_workload(cluster, workload, explained)


def _belongs(claim: Object | None, pod: Object | None) -> bool:
    """Returns whether the pod owns the claim."""
    if claim is None or pod is None:
        return False
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == pod["metadata"]["uid"] for owner in owners)


def _confusion(kind: str, namespace: str, name: str, found: list[str]) -> str:
    if found:
        return f"{name} may be a pod or a claim; say which, as in pod/{name}"
    return f"{kind or 'pod or claim'} {name} not found in namespace {namespace}; -n chooses another namespace"


class World:
    """What was listed, and the scheduler's core that knows it."""

    def __init__(
        self, found: Listed, namespace: str, policy: Policy, now: float, plugins: tuple[str, ...], tell: Tell
    ) -> None:
        self.namespace = namespace
        self._found = found
        self._listed = found.objects
        self._policy = policy
        self._plugins = plugins
        self._now = now
        self._tell = tell

    def get(self, kind: str, name: str) -> Object | None:
        listed = self._listed["Pod" if kind == "pod" else "ResourceClaim"]
        wanted = (self.namespace, name)
        return next((each for each in listed if key_of(each) == wanted), None)

    def pods(self) -> list[Object]:
        """The pods of the namespace."""
        return [each for each in self._listed["Pod"] if key_of(each)[0] == self.namespace]

    def scheduler(self, name: str, *, adopting: bool = False) -> Scheduler:
        """The core of the scheduler of that name; `adopting` if pods of all schedulers count as its own."""
        scheduler = asked_scheduler(Options(name, policy=self._policy), self._plugins, self._tell)
        fill(scheduler, self._listed, self._now, telling_unreadable(self._tell), adopting=adopting)
        return scheduler

    def _claims_of(self, document: Object) -> Iterator[Object]:
        for name in (*(name for _, name in claims_used(document)), extended_claim(document)):
            if name and (claim := self.get("claim", name)) is not None:
                yield claim

    # Pods

    def pod(self, name: str, node: str) -> Explanation:
        document = self.get("pod", name)
        assert document is not None
        if is_terminal(document):
            return self._say("pod", name, f"has ended ({phase_of(document)})", good=True)
        if place := node_of(document):
            made = self._say("pod", name, f"on node {place}", good=True)
            made.trees = [holding(claim) for claim in self._claims_of(document)] or [Tree("it has no claims")]
            made.data = lambda: {"node": place, "claims": list(self._claims_of(document))}
            return made
        if gates := document["spec"].get("schedulingGates"):
            return self._say(
                "pod", name, "waits until its scheduling gates are removed", few([each["name"] for each in gates])
            )
        if is_deleting(document):
            return self._say("pod", name, "is being deleted")
        return self._waiting(document, node)

    def _say(self, kind: str, name: str, outcome: str, conclusion: str = "", *, good: bool = False) -> Explanation:
        return Explanation(kind, self.namespace, name, outcome, good, conclusion)

    def _waiting(self, document: Object, only: str) -> Explanation:
        name = document["metadata"]["name"]
        if missing := self._missing_template(document) or self._missing_claim(document):
            return self._say("pod", name, "cannot be placed", missing)
        if unread := self._found.unread_for(document):
            made = self._say("pod", name, "cannot tell whether it fits", f"may not read {', '.join(unread)}")
            made.trees += map(Tree, (*unread.values(), REMEDY))
            return made
        made = self._judged(document, only)
        made.trees += map(Tree, self._found.notes_for(document))
        return made

    def _judged(self, document: Object, only: str) -> Explanation:
        name = document["metadata"]["name"]
        nodes = self._asked(document, only)
        if nodes.problem:
            made = self._say("pod", name, "cannot be placed", nodes.problem)
            made.unmade = bool(self._unmade(document))
            self._tell_group(made, document)
            made.remedy = remedies.of_text(made.conclusion)
            _tell_queue(made, nodes.scheduler, document)
            return made
        fitting = nodes.fitting
        made = self._say("pod", name, f"fits on {few(fitting)}" if fitting else "does not fit", good=bool(fitting))
        _tell(made, nodes)
        if not fitting:
            _tell_queue(made, nodes.scheduler, document)
        if fitting and not only:
            made.trees.append(Tree("its scheduler has not tried it since, or does not run"))
            if said := str((condition_of(document, "PodScheduled") or {}).get("message") or ""):
                # Only the scheduler itself knows what it keeps for whom.
                made.trees.append(Tree(f"last message of its scheduler: {said}"))
        return made

    def _asked(self, document: Object, only: str) -> NodeAnswers:
        """What the nodes, or only one of them, say of a pod that waits."""
        scheduler = self.scheduler(document["spec"].get("schedulerName") or "default-scheduler")
        nodes = NodeAnswers(scheduler, read(document, scheduler.state.signatures), self._now, only)
        if only and not nodes.problem and not nodes.nodes:
            known = [str(each["metadata"]["name"]) for each in self._listed["Node"]]
            raise InvalidInput([f"node {only} not found; {suggestion(only, known)}"])
        return nodes

    # Groups

    def group(self, name: str, api: str) -> Explanation:
        """`api` is the API group of its kind; empty where there is only one of the name."""
        front_ends = [each for kind, each in FRONT_ENDS.items() if kind in self._listed and api in ("", each.api_group)]
        kinds = {(each.api_group, each.kind) for each in front_ends}
        pods = [each for each in self._listed["Pod"] if (key := group_of(each)) and key.name == name]
        scheduler = self.scheduler(_scheduler_of(pods))
        wanted = (self.namespace, name)
        known = scheduler.state.groups.forest.all()
        found = [each for each in known if each.key[1:3] == wanted and (each.key.api, each.key.kind) in kinds]
        if len(found) != 1:
            several = f"; say which, as in {GROUP}.{found[0].key.api}/{name}" if found else ""
            number = f"there are {len(found)} groups" if found else "there is no PodGroup"
            unread = {kind: said for kind, said in self._found.unread.items() if kind in FRONT_ENDS}
            if unread and not found:
                question = f"whether PodGroup {name} exists in namespace {self.namespace}"
                raise InvalidInput(cannot_tell(question, unread))
            raise InvalidInput([f"{number} {name} in namespace {self.namespace}{several}"])
        return say_group(
            "group", GroupExplainer(scheduler, QueueExplainer(scheduler).answer).explain(found[0], self._now)
        )

    def _tell_group(self, made: Explanation, document: Object) -> None:
        """What keeps the group of a pod, beside what keeps the pod."""
        scheduler = self.scheduler(_scheduler_of([document]))
        group = scheduler.state.groups.of(read(document, scheduler.state.signatures))
        if group is not None:
            found = GroupExplainer(scheduler, QueueExplainer(scheduler).answer).explain(group, self._now)
            made.conclusion = conclusion(found) or made.conclusion
            made.trees = [Tree(f"PodGroup {found.group.key.title}", group_trees(found))]
            made.data = lambda: {"group": group_row(found)}

    def _unmade(self, document: Object) -> list[str]:
        """The templates of claims that the pod has not been given yet."""
        return [entry["resourceClaimTemplateName"] for entry in entries_without_claim(document)]

    def _missing_template(self, document: Object) -> str:
        """Names a template that does not exist; empty if all do, or if templates may not be read."""
        if "ResourceClaimTemplate" not in self._listed:
            return ""
        return self._missing("ResourceClaimTemplate", self._unmade(document))

    def _missing_claim(self, document: Object) -> str:
        """Names a claim that the pod itself names and that does not exist."""
        names = [str(name) for entry in claim_entries(document) if (name := entry.get("resourceClaimName"))]
        return self._missing("ResourceClaim", names)

    def _missing(self, kind: str, wanted: list[str]) -> str:
        """Says which of the wanted objects is not in the namespace, and what may be meant."""
        known = {key_of(each) for each in self._listed[kind]}
        name = next((each for each in wanted if (self.namespace, each) not in known), "")
        if not name:
            return ""
        elsewhere = [namespace for namespace, each in sorted(known) if each == name]
        similar = did_you_mean(name, (each for namespace, each in known if namespace == self.namespace))
        hint = f"create it in namespace {self.namespace}, or correct the name"
        if elsewhere:
            hint = f"it is in namespace {elsewhere[0]}, and a pod uses objects of its own namespace only"
        return f"{kind} {self.namespace}/{name} not found; {similar if similar and not elsewhere else hint}"

    # Claims

    def claim(self, name: str, only: str) -> Explanation:
        claim = self.get("claim", name)
        assert claim is not None
        users = [each for each in self._listed["Pod"] if any(claim is one for one in self._claims_of(each))]
        if allocation_of(claim):
            made = self._say("claim", name, "allocated", good=True)
            made.trees, made.data = holding(claim).branches, lambda: {"claims": [claim]}
            return made
        waiting = [each["metadata"]["name"] for each in users if not each["spec"].get("nodeName")]
        why = f"pending pods that use it: {few(waiting)}" if waiting else "no pod uses it"
        made = self._say("claim", name, f"not allocated; {why}")
        _tell(made, self._asked(wanted_claim(claim).pod, only))
        return made


def _scheduler_of(pods: list[Object]) -> str:
    return next((str(name) for each in pods if (name := each["spec"].get("schedulerName"))), Options().name)


def _tell(made: Explanation, nodes: NodeAnswers) -> None:
    if not nodes.fitting:
        made.conclusion, made.remedy = nodes.conclusion(), nodes.remedy()
    made.trees, made.data = list(nodes.trees()), lambda: {"nodes": nodes.rows()}


def _tell_queue(made: Explanation, scheduler: Scheduler, document: Object) -> None:
    """Adds to what keeps a single pod who has the quota of its queue, and why nobody is evicted."""
    pod = read(document, scheduler.state.signatures)
    answer = QueueExplainer(scheduler).answer([pod]) if scheduler.state.groups.of(pod) is None else None
    if answer is None:
        return
    if answer.problem is None and answer.excess is not None:
        made.trees.append(Tree(f"queue: {queue_text(answer)}"))
    elif answer.problem is not None and made.conclusion == reason_text(answer.problem):
        made.conclusion = queue_text(answer)
        made.data = lambda: {"queue": {"name": answer.queue, "message": queue_text(answer)}}
