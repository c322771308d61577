"""A third kind of queue, made for the interface alone: each namespace has a fixed quota, which an annotation says."""

import json
from collections import Counter

import pytest

from dray.scheduling.model.actions import Bind
from dray.scheduling.model.messages import diagnosis_text
from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.quota import systems
from dray.scheduling.quota.defaults import OneFlavor, PriorityEvictions
from dray.scheduling.quota.queue_charges import QueueCharges
from dray.scheduling.quota.queue_policy import Member, Queue
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core
from tests.scheduling_loop import core_walk
from tests.scheduling_loop.pod_checker import _has_ended

ANNOTATION = "example.com/quota"


class NamespaceQuotas:
    label = ""
    order = None

    def __init__(self, context):
        self.stores = {"Namespace": (self.put, lambda each: self.put({"metadata": {"name": each["metadata"]["name"]}}))}
        self.charges = QueueCharges(self, context)
        self.node_flavors = OneFlavor()
        self.quotas, self.used = {}, {}

    def put(self, document):
        quota = (document["metadata"].get("annotations") or {}).get(ANNOTATION)
        self.quotas[document["metadata"]["name"]] = json.loads(quota or "{}")
        self.charges.outdate()

    def member(self, pod):
        return Member(pod.key[0], pod.priority) if self.quotas.get(pod.key[0]) else None

    def queue(self, name):
        return Queue(name, name, {name: name}, (name,), name)

    def problem(self, pod, namespace):
        return None

    def amounts(self, queue, pod, devices):
        requests = pod.requirements.requests if pod is not None else {}
        number = sum(use.number for use in devices) + requests.get(gpus.GPU, 0)
        return {"cpu": requests.get("cpu", 0), "devices": number}

    def charge(self, queue, assets, sign):
        for asset, amount in assets.items():
            self.used.setdefault(queue, Counter())[asset.resource] += sign * amount

    def short(self, ask, node=None):
        quota, used = self.quotas[ask.queue], self.used.get(ask.queue, Counter())
        for name, wanted in ask.wanted.items():
            if wanted and used[name] + wanted > quota[name]:
                return Reason(Code.OVER_LIMIT, (ask.queue, name, str(wanted), str(used[name]), str(quota[name])))
        return None

    def evictions(self, ask):
        return PriorityEvictions(ask)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(systems, "SYSTEMS", (*systems.SYSTEMS, NamespaceQuotas))


def namespace(**quota):
    return {"kind": "Namespace", "metadata": {"name": "default", "annotations": {ANNOTATION: json.dumps(quota)}}}


def test_quota_is_respected_and_a_refusal_explains_itself():
    core = Core(objects.node("n", cpu="8"), gpus.slice_of("n"), namespace(cpu=3000, devices=1))
    core.put(objects.claim("c", objects.request()), objects.claim("d", objects.request()))
    core.put(*(gpus.pod(each, cpu="2") for each in "ab"), *(gpus.pod(each, claims=[each]) for each in "cd"))
    done = core.settle()
    assert {each.pod.key[1] for each in done if isinstance(each, Bind)} == {"a", "c"}
    refused = {each.pod.key[1]: diagnosis_text(each.diagnosis) for each in done if not isinstance(each, Bind)}
    assert refused["b"] == "Queue default: its limit of cpu is 3000, its pods have 2000, and 2000 more are needed"
    assert refused["d"] == "Queue default: its limit of devices is 1, its pods have 1, and 1 more are needed"


def test_a_pod_that_waits_is_placed_when_another_ends_or_the_quota_is_raised():
    core = Core(objects.node("n", cpu="8"), namespace(cpu=2000, devices=0))
    core.put(gpus.pod("a", cpu="2"), gpus.pod("b", cpu="2"), gpus.pod("c", cpu="2"))
    core.settle()
    core.remove("Pod", "a")
    assert [each.pod.key[1] for each in core.settle()] == ["b"]
    core.put(namespace(cpu=4000, devices=0))
    assert [each.pod.key[1] for each in core.settle()] == ["c"]


class QuotaWalk(core_walk.CoreWalk):
    most = 0

    def _tell(self, verb, document):
        super()._tell(verb, document)
        pods = [each for (kind, _), each in self.objects.items() if kind == "Pod" and each["spec"].get("nodeName")]
        running = {each["metadata"]["uid"] for each in pods if not _has_ended(each)}
        claims = [each for (kind, _), each in self.objects.items() if kind == "ResourceClaim"]
        used = [each for each in claims if any(user["uid"] in running for user in core_walk._users(each))]
        self.most = max(self.most, sum(len(gpus.results(each)) for each in used))


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_random_walk_with_quotas_of_namespaces_is_sound(seed, monkeypatch):
    monkeypatch.setattr(core_walk, "_ORDER", ("Namespace", *core_walk._ORDER))
    walk = QuotaWalk(seed)
    walk.put(namespace(cpu=4000, devices=6))
    for number in range(200):
        walk.step()
        if number % 25 == 24:
            assert not (problems := walk.rest()), f"after {number + 1} steps: " + "\n".join(problems)
    assert walk.most == 6
