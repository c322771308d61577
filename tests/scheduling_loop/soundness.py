"""What must hold of a cluster at rest: nothing is kept for nobody, nothing is forgotten, nobody waits who could run."""

from dray.scheduling.actions import Bind, BindGroup, RefuseGroup


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


def torn(groups, pods):
    """Gangs of which a part runs that is smaller than must start together, though none of their pods went."""
    problems = []
    for group in groups:
        name, size = group["metadata"]["name"], group["spec"]["schedulingPolicy"]["gang"]["minCount"]
        members = [
            each for each in pods.values() if (each["spec"].get("schedulingGroup") or {}).get("podGroupName") == name
        ]
        numbers = {each["metadata"]["name"] for each in members if "deletionTimestamp" not in each["metadata"]}
        started = sum(bool(each["spec"].get("nodeName")) for each in members)
        if {f"{name}-{n}" for n in range(size)} <= numbers and 0 < started < size:
            problems.append(f"{started} pods of gang {name} run, and {size} have to start together")
    return problems


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
        problems.append(f"a place on {kept.preemption.node} is kept for {kept.pod.key[1]} ({uid})")
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


def could_run(fresh):
    """Pods that wait although there is a place for them."""
    problems, now = [], 0.0
    # Claims in the meantime, for one: everything that is due is tried.
    for _ in range(3):
        now = (fresh.due() or now) + 1
        while (action := fresh.next(now)) is not None:
            if isinstance(action, BindGroup):
                places = {each.pod.key[1]: each.node for each in action.binds}
                problems.append(f"group {action.group.key.name} waits, and could be on {places}")
                continue
            if isinstance(action, RefuseGroup):
                if action.preemption is not None and action.preemption.victims:
                    victims = [each.key[1] for each in action.preemption.victims]
                    problems.append(f"group {action.group.key.name} waits, and could have the place of {victims}")
                continue
            name = action.pod.key[1]
            if isinstance(action, Bind):
                problems.append(f"pod {name} waits, and could be on {action.node}")
            elif action.preemption is not None and action.preemption.victims:
                victims = [each.key[1] for each in action.preemption.victims]
                problems.append(f"pod {name} waits, and could have the place of {victims} on {action.preemption.node}")
            elif action.release is not None:
                problems.append(f"pod {name} waits, and could give {action.release['metadata']['name']} back")
        if problems:
            break
    return problems
