"""A scheduler without a server: what the watches would say is said by the test, and what it wants done is looked at."""

from itertools import count

from dray.scheduling.model.actions import Bind, BindGroup, Refuse
from dray.scheduling.scheduler import Options, Scheduler
from dray.testing import objects
from tests import gpus

NEVER = {"preemptionPolicy": "Never"}


class Core:
    """`decisions` is how often the nodes were looked at for a pod."""

    def __init__(self, *documents, **options):
        self.scheduler = Scheduler(Options(**options))
        self.now = 0.0
        self._seen = 0
        self._versions = count(1)
        self._uids = count(1)
        self.objects = {}
        self.put(gpus.device_class("gpu"), gpus.device_class("net"), *documents)

    @property
    def state(self):
        return self.scheduler.state

    @property
    def decisions(self):
        return self.scheduler.algorithm.cycles - self._seen

    @decisions.setter
    def decisions(self, number):
        self._seen = self.scheduler.algorithm.cycles - number

    # What the watches say

    def put(self, *documents):
        """As the server would have it, and the last of them as it was stored."""
        stored = None
        for document in documents:
            stored = self._stored(document)
            self._tell("put", stored)
        return stored

    def _stored(self, document):
        metadata = dict(document["metadata"])
        kind = document["kind"]
        if kind in ("Pod", "ResourceClaim", "PodDisruptionBudget", "PodGroup", "CompositePodGroup", "LocalQueue"):
            metadata.setdefault("namespace", "default")
        key = (kind, metadata["name"])
        known = self.objects.get(key)
        metadata["uid"] = metadata.get("uid") or (known or {"metadata": {}})["metadata"].get("uid") or self._uid(kind)
        metadata["resourceVersion"] = str(next(self._versions))
        stored = self.objects[key] = {**document, "metadata": metadata}
        return stored

    def _uid(self, kind):
        return f"{kind.lower()}-{next(self._uids)}"

    def _tell(self, verb, document):
        getattr(self.scheduler, verb)(document["kind"], document, self.now)

    def say_again(self, document):
        """A version that was current once."""
        self._tell("put", document)

    def remove(self, kind, name):
        self._tell("remove", self.objects.pop((kind, name)))

    def get(self, kind, name):
        return self.objects[(kind, name)]

    def change(self, kind, name, **members):
        """Top-level members are merged one level deep."""
        known = self.get(kind, name)
        merged = {**known}
        for member, value in members.items():
            merged[member] = {**(known.get(member) or {}), **value}
        return self.put(merged)

    # What it wants

    def actions(self):
        found = []
        while (action := self.scheduler.next(self.now)) is not None or self.scheduler.interrupted:
            found += [action] if action is not None else []
            assert len(found) < 50_000, f"there is no end to it: {found[-2:]}"
        return found

    def later(self, seconds=20.0):
        """All that becomes due until then, and by then."""
        end = self.now + seconds
        found = self.actions()
        while (due := self.scheduler.due()) is not None and due <= end:
            self.now = max(self.now, due)
            found += self.actions()
        self.now = end
        return found + self.actions()

    def settle(self, seconds=20.0):
        """Whatever is wanted is done, until nothing is; gives what was done."""
        done = []
        for _ in range(50):
            actions = self.later(seconds)
            for action in actions:
                self.do(action)
            done += actions
            if not actions:
                return done
        raise AssertionError("there is no end to it")

    # Doing it

    def do(self, action):
        if isinstance(action, Bind):
            self.write(action)
            self.bind(action)
        elif isinstance(action, BindGroup):
            for each in action.binds:
                self.write(each)
            for each in action.binds:
                self.bind(each)
        else:
            for victim in action.preemption.victims if action.preemption is not None else ():
                self.remove_with_claims(victim.key[1])
            for claim in action.release:
                self.put({**self.get("ResourceClaim", claim["metadata"]["name"]), "status": {}})

    def write(self, action):
        """The claims of a decision, as the server has them then."""
        return [self.write_one(action, write) for write in action.writes]

    def write_one(self, action, write, tell=True):
        claim = self.get("ResourceClaim", write.claim["metadata"]["name"]) if not write.special else write.claim
        if write.special:
            owner = {"kind": "Pod", "name": action.pod.key[1], "uid": action.pod.uid, "controller": True}
            annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
            name = f"{action.pod.key[1]}-special"
            metadata = {"name": name, "annotations": annotations, "ownerReferences": [owner]}
            claim = {**claim, "metadata": metadata}
        status = dict(claim.get("status") or {})
        if write.allocation is not None:
            status["allocation"] = write.allocation
        status["reservedFor"] = [*(status.get("reservedFor") or ()), write.consumer]
        stored = self._stored({**claim, "status": status})
        if tell:
            self.scheduler.written(action, write, stored, self.now)
        return stored

    def bind(self, action):
        self.scheduler.bound(action, self.now)
        known = self.get("Pod", action.pod.key[1])
        self.put({**known, "spec": {**known["spec"], "nodeName": action.node}})

    def remove_with_claims(self, name):
        """A pod goes, and what only it used is given back, as the claim controller does."""
        uid = self.get("Pod", name)["metadata"]["uid"]
        self.remove("Pod", name)
        self.release(uid)

    def release(self, uid):
        for claim in self.state.claims.used_by(uid):
            status = claim["status"]
            left = [each for each in status["reservedFor"] if each["uid"] != uid]
            self.put({**claim, "status": {**status, "reservedFor": left} if left else {}})


def bound(actions):
    """Pods by name, with their nodes."""
    return {each.pod.key[1]: each.node for each in binds(actions)}


def binds(actions):
    return [
        bind
        for each in actions
        if isinstance(each, Bind | BindGroup)
        for bind in ((each,) if isinstance(each, Bind) else each.binds)
    ]


def refused(actions):
    return {each.pod.key[1]: each.message for each in actions if isinstance(each, Refuse) and each.group is None}


def refused_groups(actions):
    return {
        each.group.key.name: each.message for each in actions if isinstance(each, Refuse) and each.group is not None
    }


def place_of(action):
    """The place that a pod by itself gets by evictions."""
    return action.preemption.places[action.pod.uid]


def victims(actions):
    return sorted(
        victim.key[1]
        for each in actions
        if isinstance(each, Refuse) and each.preemption is not None
        for victim in each.preemption.victims
    )


def pod(name, *, claims=(), cpu=None, value=0, **spec):
    """`value` is the priority."""
    return gpus.pod(name, claims=claims, cpu=cpu, priority=value, **spec)


def placed(name, node, **members):
    made = pod(name, **members)
    made["spec"]["nodeName"] = node
    return made


def user(uid, node="n", **members):
    """A pod on a node whose name is its uid, as `holding` names it."""
    made = placed(uid, node, **members)
    made["metadata"]["uid"] = uid
    return made


def holding(name, *devices, users=(), pool="n", node=None, **more):
    """A claim that has devices already."""
    reserved = [{"resource": "pods", "name": each, "uid": each} for each in users]
    allocation = objects.allocation(*devices, pool=pool, nodeName=node, **more)
    return objects.claim(name, status={"allocation": allocation, "reservedFor": reserved})


def one_gpu_node(*more, gpu_count=1, **options):
    return Core(objects.node("n"), gpus.slice_of("n", gpu_count), *more, **options)
