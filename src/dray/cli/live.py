"""`dray explain` of a pod or claim of a running cluster.

Everything the scheduler would look at is listed once and given to the scheduler's own core, and every node is asked.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from dray.allocation import Rejection, allocate
from dray.allocation.policies import Policy
from dray.allocation.text import Tree, lines, tree
from dray.cli.cluster import Cluster
from dray.cli.reports import one_line
from dray.cli.verdicts import MOST_TREES, NodeTrees, device, few, holding, preemption
from dray.scheduling import groups
from dray.scheduling.inquiry import Inquiry
from dray.scheduling.scheduler import Options, Scheduler

if TYPE_CHECKING:
    from dray.client.interface import Resource

Object = dict[str, Any]
_DISPENSABLE: Final = ("PersistentVolumeClaim", "PodDisruptionBudget", "PodGroup", "Namespace")


class Unfindable(click.ClickException):
    """There is no such pod or claim, or there are several."""

    exit_code = 2


async def explain_live(cluster: Cluster, kind: str, target: str, node: str, policy: Policy) -> int:
    """`kind` is empty where it is to be found out. Prints the tree; 0 if it has what it needs or could have it."""
    namespace, _, name = target.rpartition("/")
    world = World(await _listed(cluster), namespace or cluster.namespace, policy)
    found = [each for each in ("pod", "claim") if kind in ("", each) and world.get(each, name) is not None]
    if len(found) != 1:
        raise Unfindable(_confusion(kind, world.namespace, name, found))
    tree, good = world.pod(name, node) if found[0] == "pod" else world.claim(name, node)
    for line in lines(tree):
        click.echo(one_line(line))
    return 0 if good else 1


def _confusion(kind: str, namespace: str, name: str, found: list[str]) -> str:
    if found:
        return f"{name} may be a pod or a claim; say which, as in pod/{name}"
    return f"there is no {kind or 'pod or claim'} {name} in namespace {namespace}; -n chooses another"


async def _listed(cluster: Cluster) -> dict[str, list[Object]]:
    """By kind, all there is of what matters to the scheduler."""
    from dray.api.catalogue import find
    from dray.client.discovery import served_version, serves
    from dray.client.errors import ApiError
    from dray.scheduler import volumes

    wanted: dict[str, Resource | None] = {
        name: find(api_version, name)
        for api_version, name in (
            ("v1", "Node"),
            ("v1", "Pod"),
            ("v1", "Namespace"),
            ("resource.k8s.io/v1", "ResourceSlice"),
            ("resource.k8s.io/v1", "DeviceClass"),
            ("resource.k8s.io/v1", "ResourceClaim"),
            ("policy/v1", "PodDisruptionBudget"),
        )
    }
    wanted["DeviceTaintRule"] = await served_version(cluster.client, "resource.k8s.io", "devicetaintrules")
    wanted["PodGroup"] = await served_version(cluster.client, groups.API_GROUP, groups.PLURAL)
    found: dict[str, list[Object]] = {}
    if await serves(cluster.client, volumes.CLAIMS):
        wanted["PersistentVolumeClaim"] = volumes.CLAIMS
    else:
        found["PersistentVolumeClaim"] = []
    for name, resource in wanted.items():
        if resource is None:
            continue
        try:
            found[name] = (await cluster.client.list_all(resource)).get("items") or []
        except ApiError as error:
            # Who may look at pods and claims is often not allowed to look at these.
            if not (error.is_forbidden and name in _DISPENSABLE):
                raise
    return found


class World:
    """What was listed, and the scheduler's core that knows it."""

    def __init__(self, listed: dict[str, list[Object]], namespace: str, policy: Policy) -> None:
        self.namespace = namespace
        self._listed = listed
        self._policy = policy
        self._now = time.time()

    def get(self, kind: str, name: str) -> Object | None:
        listed = self._listed["Pod" if kind == "pod" else "ResourceClaim"]
        wanted = (self.namespace, name)
        return next((each for each in listed if _key(each) == wanted), None)

    def _scheduler(self, name: str) -> Scheduler:
        scheduler = Scheduler(Options(name, policy=self._policy))
        listed = self._listed
        for kind, put in (
            ("Namespace", scheduler.put_namespace),
            ("Node", scheduler.put_node),
            ("ResourceSlice", scheduler.put_slice),
            ("DeviceClass", scheduler.put_class),
            ("DeviceTaintRule", scheduler.put_taint_rule),
        ):
            for each in listed.get(kind, ()):
                put(each)
        scheduler.state.groups.served = "PodGroup" in listed
        for each in listed.get("PodGroup", ()):
            scheduler.put_group(each, self._now)
        scheduler.state.volumes.known = "PersistentVolumeClaim" in listed
        for each in listed.get("PersistentVolumeClaim", ()):
            scheduler.put_volume_claim(each, self._now)
        for each in listed["ResourceClaim"]:
            scheduler.put_claim(each, self._now)
        for each in listed["Pod"]:
            scheduler.put_pod(each, self._now)
        return scheduler

    def _claims_of(self, document: Object) -> Iterator[Object]:
        status = document.get("status") or {}
        names = {each["name"]: each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or ()}
        for entry in document["spec"].get("resourceClaims") or ():
            name = entry.get("resourceClaimName") or names.get(entry["name"])
            if name and (claim := self.get("claim", name)) is not None:
                yield claim
        special = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
        if special and (claim := self.get("claim", special)) is not None:
            yield claim

    # Pods

    def pod(self, name: str, node: str) -> tuple[Tree, bool]:
        document = self.get("pod", name)
        assert document is not None
        title = f"pod {self.namespace}/{name}"
        phase = (document.get("status") or {}).get("phase")
        if phase in ("Succeeded", "Failed"):
            return Tree(f"{title}: has ended ({phase})"), True
        if place := document["spec"].get("nodeName"):
            held = [holding(claim) for claim in self._claims_of(document)]
            return Tree(f"{title}: on node {place}", held or [Tree("it has no claims")]), True
        if gates := document["spec"].get("schedulingGates"):
            return Tree(
                f"{title}: waits until its scheduling gates are removed: {few([each['name'] for each in gates])}"
            ), False
        if document["metadata"].get("deletionTimestamp"):
            return Tree(f"{title}: is being deleted"), False
        return self._waiting(title, document, node)

    def _waiting(self, title: str, document: Object, only: str) -> tuple[Tree, bool]:
        scheduler = self._scheduler(document["spec"].get("schedulerName") or "default-scheduler")
        waiting = scheduler.queue.get(document["metadata"]["uid"])
        assert waiting is not None
        budgets = self._listed.get("PodDisruptionBudget", ())
        inquiry = Inquiry(scheduler.state, policy=self._policy, budgets=budgets)
        answer = inquiry.ask(waiting.pod, self._now, scheduler.options.binding_timeout)
        if answer.hindrance:
            return Tree(f"{title}: cannot be placed", [Tree(answer.hindrance)]), False
        fitting = [each for each in answer.verdicts if each.placement is not None]
        root = Tree(f"{title}: {f'fits on {few([each.node for each in fitting])}' if fitting else 'does not fit'}")
        if not answer.verdicts:
            root.branches.append(Tree("there are no nodes"))
        if only and not any(each.node == only for each in answer.verdicts):
            raise Unfindable(f"there is no node {only}")
        root.branches += NodeTrees(inquiry, scheduler, waiting.pod, answer, only).trees()
        if answer.preemption is not None:
            root.branches.append(preemption(answer))
        if fitting and not only:
            root.branches.append(Tree("it has not been tried since, or its scheduler does not run"))
        return root, bool(fitting)

    # Claims

    def claim(self, name: str, only: str) -> tuple[Tree, bool]:
        claim = self.get("claim", name)
        assert claim is not None
        users = [each for each in self._listed["Pod"] if any(claim is one for one in self._claims_of(each))]
        if (claim.get("status") or {}).get("allocation"):
            return holding(claim), True
        waiting = [each["metadata"]["name"] for each in users if not each["spec"].get("nodeName")]
        why = f"pods that wait with it: {few(waiting)}" if waiting else "no pod uses it"
        root = Tree(f"claim {self.namespace}/{name}: not allocated; {why}")
        state = self._scheduler("").state
        for node in sorted(state, key=lambda each: each.name):
            if only not in ("", node.name) or len(root.branches) >= MOST_TREES:
                continue
            assert node.document is not None
            answer = allocate(state.inventory, node.document, [claim], policy=self._policy)
            if isinstance(answer, Rejection):
                root.branches.append(tree(answer))
            else:
                devices = [device(each) for each in answer.results[0]["devices"].get("results") or ()]
                root.branches.append(Tree(f"node {node.name}: fits", [Tree(text) for text in devices]))
        return root, False


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace") or "", obj["metadata"]["name"]
