"""`plan`: where pods would go, which pods would be evicted, and which changes would help."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from dray.allocation.wording import some
from dray.answers.cluster import Cluster, chosen_machines
from dray.answers.errors import InvalidInput
from dray.answers.explaining.unread_kinds import cannot_tell
from dray.answers.manifests.given import Manifests, read_given
from dray.answers.manifests.planned import Planned, planned_objects
from dray.answers.manifests.reading import Reading
from dray.answers.manifests.stored import Unusable
from dray.answers.one_line import one_line
from dray.answers.plan_text import plan_lines
from dray.answers.policies import policy_of
from dray.answers.source import Source
from dray.api.catalogue import built_in
from dray.api.objects import Object, key_of
from dray.api.pods import is_terminal, node_of
from dray.client.errors import ApiError, NotFound
from dray.fleet.machine import Machine
from dray.planning.changes import Change, ChangeError, add_machines, drain, set_quota, without
from dray.planning.fleet_scene import fleet_objects
from dray.planning.plan import Plan, make_plan
from dray.planning.plan_document import plan_document
from dray.planning.playing import Evicted, PlacedPod
from dray.planning.scene import Scene
from dray.planning.suggestions import Budget, Suggestion
from dray.scheduling.scheduler import Options
from dray.snapshot.listing import listed

_MOST_NAMES: Final = 6
_MOST_SECONDS: Final = 3600
_MOST_MACHINES: Final = 10_000
_MOST_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """A plan, and notes about what was left out."""

    plan: Plan
    notes: Sequence[str]

    @property
    def verdict(self) -> str:
        """`Fits`, `FitsWithChange` or `DoesNotFit`."""
        return self.plan.verdict.value

    @property
    def fits(self) -> bool:
        """True if every pod has a node, and every evicted pod gets another node."""
        return self.plan.played.fits

    @property
    def pods(self) -> Sequence[PlacedPod]:
        """The pods of the manifests, each with its `node` and `devices`, or the `reason` why it waits."""
        return self.plan.played.pods

    @property
    def evicted(self) -> Sequence[Evicted]:
        """The running pods that would be evicted, and where they go."""
        return self.plan.played.evicted

    @property
    def suggestions(self) -> Sequence[Suggestion]:
        """Changes with which everything fits, the smallest first."""
        return self.plan.suggestions

    @property
    def document(self) -> Object:
        """The document that `dray plan -o json` prints; docs/plan.md describes it."""
        return plan_document(self.plan, self.notes)

    @property
    def text(self) -> str:
        return "".join(f"{one_line(line)}\n" for line in plan_lines(self.plan, self.notes))


@dataclass(frozen=True, slots=True)
class Question:
    """The changes to the cluster that a plan assumes, and how long to search for changes that help."""

    add: Sequence[str] = ()
    drain: Sequence[str] = ()
    without: Sequence[str] = ()
    quota: Sequence[str] = ()
    prices: Mapping[str, float] = field(default_factory=dict)
    policy: str = "kubernetes"
    seconds: float = 10.0

    @property
    def has_changes(self) -> bool:
        return any((self.add, self.drain, self.without, self.quota))

    def check(self) -> None:
        """Raises InvalidInput if a number makes no sense."""
        problems = []
        if not 0 <= self.seconds <= _MOST_SECONDS:
            problems.append(f"error: {self.seconds} seconds: give a number from 0 to {_MOST_SECONDS}")
        for name, price in self.prices.items():
            if not name or not 0 <= price < inf:
                problems.append(f"error: price {name}={price}: write TYPE=AMOUNT, as in p5.48xlarge=55.04")
        if sum(map(_count_of, self.add)) > _MOST_MACHINES:
            problems.append(f"error: a plan can add {_MOST_MACHINES:,} machines at most")
        problems += [
            f"error: {each!r} adds no machine; write NxTYPE, as in 4xp5.48xlarge"
            for each in self.add
            if _as_choice(each).endswith("=0")
        ]
        if problems:
            raise InvalidInput(problems)


def _nothing(pod: Object) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Base:
    """The cluster before any change: its objects, its machines, and notes about what could not be read."""

    objects: Mapping[str, Sequence[Object]]
    namespace: str
    now: float
    priority_classes: Sequence[Object] | None = None
    """The value is None if the existing ones are not known."""
    machines: Sequence[Machine] = ()
    notes: Sequence[str] = ()
    unread_for: Callable[[Object], Mapping[str, str]] = _nothing
    """Returns the kinds of the pod's queue and group that may not be read, with the server's answer for each."""

    def check_readable(self, pods: Iterable[Object]) -> None:
        """Raises InvalidInput if a pod has a queue or a group that may not be read."""
        unread = {kind: said for pod in pods for kind, said in self.unread_for(pod).items()}
        if unread:
            first, *others = cannot_tell("whether the pods fit", unread)
            raise InvalidInput([f"error: {first}", *others])

    def readable(self) -> Base:
        """Returns the cluster without waiting pods whose queue or group may not be read: nobody knows their turn."""
        pods = self.objects.get("Pod", ())
        hidden = {key_of(pod) for pod in pods if self.unread_for(pod) and not node_of(pod) and not is_terminal(pod)}
        if not hidden:
            return self
        objects = {**self.objects, "Pod": [pod for pod in pods if key_of(pod) not in hidden]}
        what = "1 waiting pod is" if len(hidden) == 1 else f"{len(hidden):,} waiting pods are"
        names = some(sorted(map("/".join, hidden)), _MOST_NAMES)
        note = f"{what} left out, because their queues or groups may not be read: {names}"
        return replace(self, objects=objects, notes=[note, *self.notes])


def plan(
    manifests: Manifests = (),
    cluster: Cluster | None = None,
    *,
    add: Sequence[str] = (),
    drain: Sequence[str] = (),
    without: Sequence[str] = (),
    quota: Sequence[str] = (),
    prices: Mapping[str, float] | None = None,
    policy: str = "kubernetes",
    seconds: float = 10.0,
) -> PlanAnswer:
    """Returns where the pods of the manifests would go, which pods would be evicted, and which changes would help.

    `add` has machines (`4xp5.48xlarge`), `drain` nodes, `without` devices (`NODE/gpu-0`), and `quota` other quota of
    queues (`team-a=gpu.nvidia.com:+8`). `seconds` limits the search for changes that help; 0 leaves it out. Nothing is
    written to the cluster. Raises InvalidInput if a manifest or an argument is wrong, and ClientError if a server does
    not answer.
    """
    question = Question(add, drain, without, quota, prices or {}, policy, seconds)
    reading, chosen = read_given(manifests), cluster or Cluster.from_kubeconfig()
    base = fleet_base(chosen.machines, "") if chosen.machines else chosen.ask(cluster_base)
    return plan_reading(reading, base, question)


async def cluster_base(source: Source) -> Base:
    """Lists the objects of a cluster, with notes about kinds that may not be read."""
    found = await listed(source.client)
    classes, refusal = await _priority_classes(source)
    unread = dict.fromkeys([*found.unread.values(), *([refusal] if refusal else [])])
    notes = [f"not taken into account: {said}" for said in unread]
    notes += [*dict.fromkeys(found.left.values()), *found.doubts]
    return Base(found.objects, source.namespace, source.now(), classes, notes=notes, unread_for=found.unread_for)


def fleet_base(machines: Sequence[Machine], namespace: str) -> Base:
    """Returns the objects of simulated machines without pods."""
    return Base(fleet_objects(machines), namespace or "default", time.time(), machines=machines)


async def _priority_classes(source: Source) -> tuple[list[Object] | None, str]:
    """Returns the PriorityClasses, or None and the answer of the server if the user may not read them.

    Every server has some: if there are none, they were not saved with the other objects.
    """
    kind = built_in("scheduling.k8s.io/v1", "PriorityClass")
    try:
        return list((await source.client.list_all(kind)).get("items") or ()) or None, ""
    except NotFound:
        # Snapshots of earlier versions do not have them.
        return None, ""
    except ApiError as error:
        if not error.is_forbidden:
            raise
        return None, str(error)


def plan_reading(reading: Reading, base: Base, question: Question) -> PlanAnswer:
    """Returns the plan of manifests that were read before. Raises InvalidInput."""
    question.check()
    problems, planned = [str(problem) for problem in reading.problems], None
    if not problems and not reading.manifests and not question.has_changes:
        raise InvalidInput(["error: nothing to plan; give manifests, or a change: drain, without, add or quota"])
    try:
        planned = planned_objects(reading.manifests, base.namespace, base.priority_classes, base.now, base.objects)
    except Unusable as unusable:
        problems += map(str, unusable.problems)
    if planned is not None and planned.unplanned and not planned.has_pods:
        problems += [f"error: {each}" for each in planned.unplanned]
    if problems or planned is None:
        raise InvalidInput(problems)
    base.check_readable(planned.objects.get("Pod", ()))
    base = base.readable()
    added = chosen_machines(tuple(map(_as_choice, question.add))) if question.add else ()
    try:
        made = make_plan(
            _scene(base, planned),
            _changes(question, added),
            Options(policy=policy_of(question.policy)),
            prices={**_prices((*base.machines, *added)), **question.prices},
            budget=search_budget(question.seconds),
            clock=time.monotonic,
        )
    except ChangeError as error:
        raise InvalidInput([f"error: {error}"]) from None
    return PlanAnswer(made, (*base.notes, *planned.notes, *planned.unplanned))


def _scene(base: Base, planned: Planned) -> Scene:
    return Scene(
        base.objects,
        planned.objects,
        base.now,
        leaving=planned.leaving,
        rollouts=planned.rollouts,
        refused=planned.refused,
    )


def search_budget(seconds: float) -> Budget:
    """Returns the budget of a search for changes that help; 0 seconds leave the search out."""
    return Budget(seconds=seconds)


def _changes(question: Question, added: Sequence[Machine]) -> list[Change]:
    changes = [drain(node) for node in question.drain]
    changes += [without(device) for device in question.without]
    changes += [_quota_change(quota) for quota in question.quota]
    return [*changes, add_machines(added)] if added else changes


def _quota_change(text: str) -> Change:
    queue, equals, rest = text.partition("=")
    resource, colon, amount = rest.rpartition(":")
    if not (queue and equals and resource and colon and amount):
        raise InvalidInput([f"error: quota {text!r}: write QUEUE=RESOURCE:AMOUNT, as in team-a=gpu.nvidia.com:16"])
    return set_quota(queue, resource, amount)


def _as_choice(text: str) -> str:
    """Turns `4xp5.48xlarge` into `p5.48xlarge=4`, the form of --fleet."""
    count, x, type_ = text.partition("x")
    return f"{type_}={count}" if x and count.isascii() and count.isdecimal() else text


def _count_of(text: str) -> int:
    """Returns the number of machines in an option; 0 if it names none. More digits than any plan can add are cut."""
    _, equals, count = _as_choice(text).rpartition("=")
    return int(count[:_MOST_DIGITS]) if equals and count.isascii() and count.isdecimal() else 0


def _prices(machines: Sequence[Machine]) -> dict[str, float]:
    """Returns the prices of the machine types in the user's files."""
    types = (machine.type for machine in machines)
    return {type_.name: type_.hourly_price for type_ in types if type_.hourly_price is not None}
