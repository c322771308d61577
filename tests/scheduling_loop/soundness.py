"""What must hold of a cluster at rest: nothing is kept for nobody, nothing is forgotten, nobody waits who could run."""

from dray.scheduling.attempts.group_attempt import group_of
from dray.scheduling.model.actions import Bind, BindGroup
from dray.scheduling.model.reasons import Code
from tests.scheduling.core import place_of


def is_named(claim):
    return not claim["metadata"].get("ownerReferences")


def outlived(claims, pods):
    """Allocations that are kept for nobody."""
    problems = []
    named = {
        (entry.get("resourceClaimName")) for pod in pods.values() for entry in pod["spec"].get("resourceClaims") or ()
    }
    for claim in claims:
        status = claim.get("status") or {}
        if not status.get("allocation"):
            continue
        name, users = claim["metadata"]["name"], status.get("reservedFor") or ()
        for user in users:
            pod = pods.get(user["uid"])
            if pod is None or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                problems.append(f"claim {name} is kept for {user['name']}, which is no more")
        if not users and name not in named and is_named(claim):
            problems.append(f"claim {name} has devices, and no pod names it")
    return problems


def torn(groups, pods, made):
    """Gangs of which a part runs that is smaller than must start together, though none of the pods `made` for them
    went."""
    problems = []
    for group in groups:
        name, size = group["metadata"]["name"], group["spec"]["schedulingPolicy"]["gang"]["minCount"]
        members = [
            each for each in pods.values() if (each["spec"].get("schedulingGroup") or {}).get("podGroupName") == name
        ]
        numbers = {each["metadata"]["name"] for each in members if "deletionTimestamp" not in each["metadata"]}
        started = sum(bool(each["spec"].get("nodeName")) for each in members)
        if any(map(_is_locked_out, members)):
            continue
        if made[name] <= numbers and 0 < started < size:
            problems.append(f"{started} pods of gang {name} run, and {size} have to start together")
    return problems


def felled(trees, made, pods):
    """Trees of which one gang runs and another does not, though none of the pods `made` for them went."""
    there = {each["metadata"]["name"]: each for each in pods.values() if "deletionTimestamp" not in each["metadata"]}
    problems = []
    for name, gangs in trees.items():
        members = {gang: [there.get(pod) for pod in made[gang]] for gang in gangs}
        whole = [each for found in members.values() for each in found]
        if None in whole or any(map(_is_locked_out, whole)):
            continue
        started = [any(each["spec"].get("nodeName") for each in found) for found in members.values()]
        if any(started) and not all(started):
            problems.append(f"of tree {name} only some gangs run: {dict(zip(members, started, strict=True))}")
    return problems


def _is_locked_out(pod):
    """Whether nodes do not take it any more for what they are: between the death of a scheduler and the start of the
    next they may have been closed to the rest of a gang."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    said = "".join(str(each.get("message")) for each in conditions if each["type"] == "PodScheduled")
    return not pod["spec"].get("nodeName") and "node(s)" in said


def differences(live, fresh):
    """Between what a scheduler knows from events and what one knows that just started."""
    problems = []
    for name, (one, other) in {
        "nodes": (_nodes(live), _nodes(fresh)),
        "claims": (_claims(live), _claims(fresh)),
        "usage": (_usage(live), _usage(fresh)),
        "holders": (_holders(live), _holders(fresh)),
        "affinity": (_equal_pods(live), _equal_pods(fresh)),
        "waiting": (_waiting(live), _waiting(fresh)),
        "members": (_members(live), _members(fresh)),
    }.items():
        if one != other:
            keys = sorted((k for k in one.keys() | other.keys() if one.get(k) != other.get(k)), key=str)
            problems += [f"{name}: {k}: {one.get(k)!r} instead of {other.get(k)!r}" for k in keys[:5]]
    for uid, kept in live.nominations._kept.items():
        if kept.reserved and live.reservations.active:
            continue
        problems.append(f"a place on {kept.place.node} is kept for {kept.pod.key[1]} ({uid})")
    if live.in_flight or live.state.claims._assumed:
        problems.append(f"in flight: {list(live.in_flight)} {list(live.state.claims._assumed)}")
    return problems


def _nodes(scheduler):
    return {
        node.name: (
            node.document is not None and node.document["metadata"]["resourceVersion"],
            sorted(node.pods),
            node.requested,
            node.ports.all(),
        )
        for node in scheduler.state.nodes.values()
    }


def _claims(scheduler):
    return {key: each["metadata"]["resourceVersion"] for key, each in scheduler.state.claims._claims.items()}


def _usage(scheduler):
    return dict(scheduler.state.inventory.usage.claims)


def _holders(scheduler):
    usage = scheduler.state.inventory.usage.devices
    return {device: (sorted(each.owners), sorted(each.shares)) for device, each in usage.items()}


def _equal_pods(scheduler):
    return {
        (key[0], tuple(sorted(key[1])), key[2]): {node.name: n for node, n in pods.by_node.items()}
        for key, pods in scheduler.state.affinity._pods.items()
    }


def _waiting(scheduler):
    return dict.fromkeys(scheduler.queue._queued, True)


def _members(scheduler):
    return {
        key: (sorted(each.waiting), sorted(each.placed), sorted(each.succeeded))
        for key, each in scheduler.state.groups._members.items()
    }


def kept_off(live):
    """The names of pods and groups that wait because a place is kept for a group, or others are before them."""
    return {
        name
        for queued in live.queue.all()
        if queued.reported is not None and queued.reported.status is not None
        if any(reason.code in (Code.PLACE_RESERVED, Code.QUEUE_HELD_UP) for reason in queued.reported.status.reasons)
        for name in (queued.pod.key[1], _group_name(live, queued.pod))
    }


def _group_name(live, pod):
    """Of the group that the pod is placed with, the root of its tree."""
    group = group_of(live.state.groups, pod) if pod.group is not None else None
    return group.key.name if group is not None else ""


def _title(action):
    return action.pod.key[1] if isinstance(action, Bind) or action.group is None else action.group.key.name


def keep_reserved(live, fresh):
    """The place that one scheduler keeps for a group, another keeps too: whoever waits for it waits with reason."""
    for kept in list(live.nominations._kept.values()):
        queued = fresh.queue.get(kept.pod.uid)
        if kept.reserved and queued is not None:
            fresh.nominations.keep({queued.pod: kept.place}, reserved=True)


def told(live, problems):
    """What those that are named in the problems were told last, and what became of them."""
    return [
        f"{each.pod.key[1]} is {each.subqueue.value}: {each.reported}, {each.entry}"
        for each in live.queue.all()
        for names in [(each.pod.key[1], _group_name(live, each.pod))]
        if any(f" {name} " in problem for problem in problems for name in names if name)
    ]


def could_run(fresh, excused=frozenset(), now=0.0):
    """Pods that wait although there is a place for them; `excused` are names of those that need not say why."""
    problems = []
    # Claims in the meantime, for one: everything that is due is tried.
    for _ in range(3):
        now = (fresh.due() or now) + 1
        while (action := fresh.next(now)) is not None or fresh.interrupted:
            if action is None or _title(action) in excused:
                continue
            if isinstance(action, BindGroup):
                places = {each.pod.key[1]: each.node for each in action.binds}
                problems.append(f"group {action.group.key.name} waits, and could be on {places}")
                continue
            if not isinstance(action, Bind) and action.group is not None:
                places = action.preemption.places if action.preemption is not None else {}
                if places and action.preemption.victims:
                    victims = [each.key[1] for each in action.preemption.victims]
                    problems.append(f"group {action.group.key.name} waits, and could have the place of {victims}")
                continue
            name = action.pod.key[1]
            if isinstance(action, Bind):
                problems.append(f"pod {name} waits, and could be on {action.node}")
            elif action.preemption is not None and action.preemption.victims:
                victims = [each.key[1] for each in action.preemption.victims]
                problems.append(f"pod {name} waits, and could have the place of {victims} on {place_of(action).node}")
            elif action.release:
                problems.append(f"pod {name} waits, and could give {action.release[0]['metadata']['name']} back")
        if problems:
            break
    return problems
