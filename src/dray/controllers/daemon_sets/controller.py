"""The DaemonSet controller: event handlers, and one reconciliation of a DaemonSet.

One pass: find out which pods and revisions are its, make and delete pods so that each node it runs on has one, take
the next step of an update, write the status, delete old revisions. What was written here is seen in the same pass.
"""

from __future__ import annotations

from typing import Final

from dray.api.label_selectors import Matcher, from_object
from dray.api.objects import Key, Object, controller_of, is_deleting, is_true, labels_of, spec_of, uid_of
from dray.api.pods import node_of, phase_of
from dray.client.cache import Change
from dray.client.errors import ClientError
from dray.controllers.daemon_sets import rollout, status, template
from dray.controllers.daemon_sets.daemons import Daemons
from dray.controllers.daemon_sets.failures import Failures
from dray.controllers.daemon_sets.plan import Plan, plan, told
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.kinds import DAEMON_SETS, NODES, PODS
from dray.controllers.workloads.adoption import BY_CONTROLLER, Adoption, index_by_controller, selecting
from dray.controllers.workloads.availability import until_available
from dray.controllers.workloads.batches import in_batches, slow_start
from dray.controllers.workloads.own_writes import OwnWrites, follow_owner
from dray.controllers.workloads.pod_control import PodControl
from dray.controllers.workloads.revisions import HASH_LABEL, Revisions, hash_of

# Nodes and pods come and go in crowds: so long a DaemonSet waits for more of them, for each node.
_GATHER_PER_NODE: Final = 0.0002
_LONGEST_GATHER: Final = 1.0
# At most so many pods are made in one pass.
_BURST: Final = 250


class DaemonSetController(QueueController[Key]):
    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._daemon_sets = environment.informers.of(DAEMON_SETS)
        self._pods = environment.informers.of(PODS, {BY_CONTROLLER: index_by_controller})
        self._nodes = environment.informers.of(NODES)
        self._own = OwnWrites(self._daemon_sets)
        self._written = OwnWrites(self._pods)
        self._adoption = Adoption(self._client, DAEMON_SETS, PODS, self._pods, self._written)
        self._control = PodControl(environment, self._written)
        self._revisions = Revisions(environment, DAEMON_SETS)
        self._failures = Failures()
        self._workers = environment.workers("daemonset", self._reconcile, called=named("DaemonSet"), count=4)
        self._daemon_sets.add_handler(self._on_daemon_set)
        self._pods.add_handler(self._on_pod)
        self._nodes.add_handler(self._on_node)

    # What happened

    def _on_daemon_set(self, change: Change) -> None:
        follow_owner(change, self._workers.queue, self._own, self._written, self._revisions, self._failures)

    def _on_pod(self, change: Change) -> None:
        if not self._daemon_sets.cache:
            return
        pod, before = change.object, change.previous
        if before is not None and change.type == "MODIFIED" and _state(before) == _state(pod):
            return
        for changed in (pod, before):
            owner = controller_of(changed) if changed is not None else None
            if owner is not None and owner.get("kind") == DAEMON_SETS.kind:
                if change.type == "DELETED":
                    self._written.removed(owner["uid"], uid_of(pod))
                self._wake((change.key[0], owner["name"]))
        if change.type != "DELETED":
            for key in selecting(self._daemon_sets.cache, pod, _selector):
                self._wake(key)

    def _on_node(self, change: Change) -> None:
        before, node = change.previous, change.object
        if before is not None and change.type == "MODIFIED" and _demands(before) == _demands(node):
            return
        for daemon_set in self._daemon_sets.cache:
            self._wake((daemon_set["metadata"]["namespace"], daemon_set["metadata"]["name"]))

    def _wake(self, key: Key) -> None:
        self._workers.queue.add_after(key, min(_LONGEST_GATHER, len(self._nodes.cache) * _GATHER_PER_NODE))

    # DaemonSets

    async def _reconcile(self, key: Key) -> float | None:
        daemon_set = self._own.newest_owner(key, DAEMON_SETS)
        if daemon_set is None or is_deleting(daemon_set):
            return None
        revisions = await self._revisions.of(daemon_set)
        revision = await self._revisions.in_force(daemon_set, revisions)
        digest = hash_of(revision)
        pods = await self._adoption.settle(daemon_set, _selector(daemon_set))
        daemons = Daemons.of(daemon_set, digest, self._nodes.cache, pods, self._time.now())
        wait, failure = None, None
        try:
            wait = await self._make_one_each(daemons)
            daemons = self._renewed(daemons)
            await self._carry_out(daemons, rollout.step(daemons))
        except ClientError as error:
            # What there is counts all the same.
            failure = error
        daemons = self._renewed(daemons)
        await self._own.write_status(self._client, DAEMON_SETS, daemons.daemon_set, status.status(daemons))
        pods = [pod for node_pods in daemons.pods.values() for pod in node_pods]
        hashes = {labels_of(pod).get(HASH_LABEL) for pod in pods} | {digest}
        used = {uid_of(known_revision) for known_revision in revisions if hash_of(known_revision) in hashes}
        await self._revisions.prune(daemon_set, revisions, used)
        if failure is not None:
            raise failure
        waits = (wait, until_available(pods, daemons.min_ready, daemons.now))
        return min((delay for delay in waits if delay is not None), default=None)

    def _renewed(self, daemons: Daemons) -> Daemons:
        return daemons.with_pods(self._adoption.of(daemons.daemon_set, _selector(daemons.daemon_set)))

    async def _make_one_each(self, daemons: Daemons) -> float | None:
        """Gives each node one pod. Returns the seconds until failed pods are looked at again."""
        next_, waits = plan(daemons), []
        for pod, node in next_.ended:
            failed = phase_of(pod) == "Failed"
            wait = self._failures.wait(uid_of(daemons.daemon_set), node, daemons.now) if failed else 0.0
            if wait > 0:
                waits.append(wait)
                continue
            type_, reason, message = told(pod, node)
            (self._events.warning if type_ == "Warning" else self._events.normal)(daemons.daemon_set, reason, message)
            next_.delete.append(pod)
        await self._carry_out(daemons, next_)
        if len(next_.create) > _BURST:
            waits.append(0.0)
        return min(waits, default=None)

    async def _carry_out(self, daemons: Daemons, next_: Plan) -> None:
        owner = daemons.daemon_set
        await slow_start(
            lambda node: self._control.create(owner, lambda: template.pod(owner, node, daemons.revision)),
            next_.create[:_BURST],
        )
        await in_batches(lambda pod: self._control.delete(owner, pod), next_.delete)


def _selector(daemon_set: Object) -> Matcher:
    return from_object(daemon_set["spec"]["selector"])


def _state(pod: Object) -> tuple[object, ...]:
    """Returns the parts of a pod that the DaemonSet depends on; other changes are ignored."""
    metadata = pod["metadata"]
    members = ("labels", "ownerReferences", "deletionTimestamp")
    return *(metadata.get(name) for name in members), phase_of(pod), node_of(pod), is_true(pod, "Ready")


def _demands(node: Object) -> tuple[object, object]:
    return labels_of(node), spec_of(node).get("taints")
