"""Plans for pods that a cluster has and that wait: what would help them, and when they may start."""

from __future__ import annotations

import time
from collections.abc import Collection

from dray.answers.errors import NotThere
from dray.answers.plan import Base, PlanAnswer
from dray.answers.policies import policy_of
from dray.api.objects import Key, key_of
from dray.api.pods import is_terminal, node_of
from dray.planning.plan import make_plan
from dray.planning.scene import Scene
from dray.planning.suggestions import Budget
from dray.scheduling.scheduler import Options


def plan_waiting(base: Base, keys: Collection[Key], *, seconds: float = 10.0, policy: str = "kubernetes") -> PlanAnswer:
    """Returns the plan of pods that wait, as if they were submitted together now with the age that they have.

    Raises NotThere if none of them waits.
    """
    pods = base.objects.get("Pod", ())
    waiting = [each for each in pods if key_of(each) in keys and not node_of(each) and not is_terminal(each)]
    if not waiting:
        raise NotThere(["none of these pods waits any more"])
    chosen = {key_of(each) for each in waiting}
    rest = {**base.objects, "Pod": [each for each in pods if key_of(each) not in chosen]}
    wanted = [{**each, "apiVersion": "v1", "kind": "Pod"} for each in waiting]
    made = make_plan(
        Scene(rest, {"Pod": wanted}, base.now),
        [],
        Options(policy=policy_of(policy)),
        prices={},
        budget=Budget(tries=60 if seconds > 0 else 0, seconds=seconds),
        clock=time.monotonic,
    )
    return PlanAnswer(made, base.notes)
