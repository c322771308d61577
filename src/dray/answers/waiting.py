"""Plans for waiting pods of a cluster: which changes would help them, and when they may start."""

from __future__ import annotations

import time
from collections.abc import Collection

from dray.answers.errors import NotThere
from dray.answers.plan import Base, PlanAnswer, search_budget
from dray.answers.policies import policy_of
from dray.api.objects import Key, key_of
from dray.api.pods import is_terminal, node_of
from dray.planning.plan import make_plan
from dray.planning.scene import Scene
from dray.scheduling.scheduler import Options


def plan_waiting(base: Base, keys: Collection[Key], *, seconds: float = 10.0, policy: str = "kubernetes") -> PlanAnswer:
    """Returns the plan of waiting pods, as if they were submitted together now, with their present age.

    Raises NotThere if none of the pods waits, and InvalidInput if what decides on one of them may not be read.
    """
    pods = base.objects.get("Pod", ())
    waiting = [pod for pod in pods if key_of(pod) in keys and not node_of(pod) and not is_terminal(pod)]
    if not waiting:
        raise NotThere(["none of these pods waits any more"])
    base.check_readable(waiting)
    base = base.readable()
    chosen = {key_of(pod) for pod in waiting}
    rest = {**base.objects, "Pod": [pod for pod in base.objects["Pod"] if key_of(pod) not in chosen]}
    wanted = [{**pod, "apiVersion": "v1", "kind": "Pod"} for pod in waiting]
    made = make_plan(
        Scene(rest, {"Pod": wanted}, base.now),
        [],
        Options(policy=policy_of(policy)),
        prices={},
        budget=search_budget(seconds),
        clock=time.monotonic,
    )
    return PlanAnswer(made, base.notes)
