"""A plugin of a user is one class and one registration; what it does wrong stays its own."""

import math

import pytest

from dray.scheduling.core.guarded_plugin import MOST_FAULTS, FaultKind, Overrun
from dray.scheduling.explain.explainer import Explainer
from dray.scheduling.model.messages import status_text
from dray.scheduling.model.reasons import ObjectRef
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import SKIP, Depends, FailurePolicy, Plugin
from dray.scheduling.scheduler import Options, Scheduler
from dray.testing import objects
from tests.scheduling.core import Core, bound, placed, pod, refused, victims


class NoRed(Plugin):
    """Keeps pods off red nodes."""

    depends_on = Depends.NODE

    def filter(self, cycle, node):
        if node.labels.get("colour") == "red":
            return Status.unschedulable("node(s) were red", resolvable=False)


def coloured(name, colour, **members):
    return objects.node(name, labels={"colour": colour}, **members)


def explained(core, name):
    queued = core.scheduler.queue.get(core.get("Pod", name)["metadata"]["uid"])
    return Explainer(core.scheduler).explain(queued.pod, core.now)


# One class and one registration


def test_a_filter_is_obeyed_and_named_by_the_condition():
    core = Core(coloured("r", "red"), coloured("b", "blue", cpu="1"), pod("big", cpu="2"), plugins=(NoRed(),))
    assert refused(core.actions())["big"] == "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were red."


def test_explanations_know_it():
    core = Core(coloured("r", "red"), pod("p"), plugins=(NoRed(),))
    core.actions()
    (answer,) = explained(core, "p").nodes
    assert (answer.status.plugin, status_text(answer.status)) == ("NoRed", "node(s) were red")


def test_preemption_knows_it():
    nodes = [coloured("r", "red", cpu="2"), coloured("b", "blue", cpu="2")]
    there = [placed("on-red", "r", cpu="2", value=-5), placed("on-blue", "b", cpu="2")]
    core = Core(*nodes, *there, pod("p", cpu="2", value=10), plugins=(NoRed(),))
    # The one on the red node would be the cheaper victim.
    assert victims(core.actions()) == ["on-blue"]


class Prepared(NoRed):
    """Leaves in the cycle what its filter needs."""

    def prefilter(self, cycle):
        cycle.data[self.name] = "red"

    def filter(self, cycle, node):
        if node.labels.get("colour") == cycle.data[self.name]:
            return Status.unschedulable("red")


@pytest.mark.parametrize("plugin", [NoRed, Prepared])
def test_waking_knows_it_and_prepares_what_a_filter_needs(plugin):
    core = Core(coloured("r", "red"), pod("p"), plugins=(plugin(),))
    core.later(60)
    core.decisions = 0
    core.put(coloured("r", "red", cpu="9"))
    assert core.later(60) == []
    assert core.decisions == 0
    core.put(coloured("r", "blue"))
    assert bound(core.later(11)) == {"p": "r"}


class AtMostOne(Plugin):
    """Of a team in the whole cluster."""

    def filter(self, cycle, node):
        if any(pod.labels.get("team") for each in self.cluster for pod in each.pods.values()):
            return Status.unschedulable("the team has a pod")


class AtMostOneAtAll(Plugin):
    def __init__(self):
        self.taken = True

    def prefilter(self, cycle):
        return Status.unschedulable("there is one") if self.taken else SKIP


def test_a_pod_rejected_by_what_is_on_other_nodes_is_tried_when_that_leaves():
    core = Core(objects.node("n"), objects.node("m"), placed("t", "m", labels={"team": "a"}), plugins=(AtMostOne(),))
    core.put(pod("p"))
    assert "the team has a pod" in refused(core.actions())["p"]
    core.remove("Pod", "t")
    assert list(bound(core.later(11))) == ["p"]


def test_a_pod_rejected_before_any_node_is_tried_when_pods_leave():
    plugin = AtMostOneAtAll()
    core = Core(objects.node("n"), placed("t", "n"), pod("p"), plugins=(plugin,))
    assert "there is one" in refused(core.actions())["p"]
    plugin.taken = False
    core.remove("Pod", "t")
    assert bound(core.later(11)) == {"p": "n"}


class NeedsClaim(Plugin):
    def prefilter(self, cycle):
        if not cycle.pod.annotations.get("ready"):
            return Status.unschedulable("no licence", waits_for=(ObjectRef("ResourceClaim", "default", "licence"),))


def test_a_pod_waits_for_the_object_that_a_status_names():
    core = Core(objects.node("n"), pod("p"), plugins=(NeedsClaim(),))
    core.actions()
    core.later(60)
    queued = core.scheduler.queue.get(core.get("Pod", "p")["metadata"]["uid"])
    tried = queued.attempts
    core.put(objects.claim("other"))
    core.later(20)
    assert queued.attempts == tried
    core.put(objects.claim("licence"))
    core.later(20)
    assert queued.attempts == tried + 1


class Taste(Plugin):
    """Pods say which colour they must not have."""

    depends_on = Depends.NODE

    def sign(self, document):
        return (document["metadata"].get("annotations") or {}).get("not")

    def filter(self, cycle, node):
        if node.labels.get("colour") == cycle.pod.annotations.get("not"):
            return Status.unschedulable("wrong colour")


def test_pods_with_another_sign_share_no_answers():
    picky = pod("picky", annotations={"not": "red"})
    core = Core(coloured("r", "red"), coloured("b", "blue", cpu="1"), plugins=(Taste(),))
    core.put(pod("a", cpu="2"))
    assert bound(core.actions()) == {"a": "r"}
    core.put(picky)
    assert bound(core.actions()) == {"picky": "b"}


class Prefers(Plugin):
    weight = 100

    def __init__(self, answer):
        self.answer = answer

    def score(self, cycle, node):
        return self.answer if node.name == "m" else 0


def test_a_score_ranks_nodes():
    for order in ("nm", "mn"):
        core = Core(*map(objects.node, order), pod("p"), plugins=(Prefers(100),))
        assert bound(core.actions()) == {"p": "m"}


class KeptScore(Prefers):
    depends_on = Depends.NODE


class Least(Plugin):
    """Scores of any size, scaled."""

    def score(self, cycle, node):
        return 10**9 if node.name == "m" else -5

    def normalize(self, cycle, scores):
        most = max(scores.values())
        return {number: 100 if score == most else 0 for number, score in scores.items()}


def test_kept_and_normalized_scores_rank_nodes():
    for plugin in (KeptScore(100), Least()):
        core = Core(objects.node("n", cpu="9"), objects.node("m"), pod("p"), plugins=(plugin,))
        assert bound(core.actions()) == {"p": "m"}


# Faults


class Faulty(Plugin):
    depends_on = Depends.NODE

    def __init__(self, method, do):
        self.do = do
        self.method = method
        if method == "prescore":
            self.depends_on = Depends.CLUSTER

    def defines(self, method):
        return method == self.method or (method == "score" and self.method == "prescore")

    def _do(self, method, otherwise):
        return self.do() if self.method == method else otherwise

    def sign(self, document):
        return self._do("sign", None)

    def pre_enqueue(self, pod):
        return self._do("pre_enqueue", None)

    def prefilter(self, cycle):
        return self._do("prefilter", None)

    def filter(self, cycle, node):
        return self._do("filter", None)

    def prescore(self, cycle):
        return self._do("prescore", None)

    def score(self, cycle, node):
        return self._do("score", 0)

    def normalize(self, cycle, scores):
        return self._do("normalize", scores)

    def rescore(self, cycle, node):
        return self._do("rescore", False)

    def reserve(self, cycle, node):
        return self._do("reserve", None)

    def details(self, cycle, node):
        return self._do("details", ())


class Watched(Core):
    """A core that remembers the faults."""

    def __init__(self, *documents, **options):
        super().__init__()
        self.faults = []
        self.scheduler = Scheduler(Options(**options), plugin_fault=self.faults.append)
        self.put(*documents)


def raising(error):
    def do():
        raise error

    return do


NONSENSE = ["red", True, math.nan, 10**9, -1, 5.5, [], Status("x", ()), Status("x", ("no reason",)), object()]
DECIDING = ["filter", "prefilter", "pre_enqueue"]
SCORING = ["score", "normalize", "prescore"]


@pytest.mark.parametrize("method", DECIDING)
@pytest.mark.parametrize("answer", NONSENSE, ids=lambda each: repr(each)[:20])
def test_a_filter_that_answers_nonsense_is_named_and_at_last_switched_off(method, answer):
    core = Watched(objects.node("n"), pod("p"), plugins=(Faulty(method, lambda: answer),))
    (refusal,) = core.actions()
    assert refusal.reason == "SchedulerError"
    assert "plugin Faulty failed" in refusal.message
    assert f"({method} answered" in refusal.message
    assert bound(core.later(600)) == {"p": "n"}
    assert {(each.plugin, each.method, each.kind) for each in core.faults} == {("Faulty", method, FaultKind.NONSENSE)}
    assert [each.switched_off for each in core.faults] == [False] * 9 + [True]
    assert core.scheduler.user_plugins[0].off.startswith(f"{method} failed in 10 attempts one after the other; ")


@pytest.mark.parametrize("method", [*DECIDING, "reserve"])
@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), SystemExit(3), RecursionError(), Overrun()])
def test_whatever_a_plugin_raises_the_scheduler_goes_on(method, error):
    core = Watched(objects.node("n"), pod("p"), plugins=(Faulty(method, raising(error)),))
    (refusal,) = core.actions()
    assert refusal.reason == "SchedulerError"
    assert f"{method} " in refusal.message
    assert bound(core.later(600)) == {"p": "n"}
    kind = FaultKind.OVERRAN if isinstance(error, Overrun) else FaultKind.RAISED
    assert len(core.faults) == MOST_FAULTS[kind]
    assert {each.kind for each in core.faults} == {kind}


@pytest.mark.parametrize("method", SCORING)
@pytest.mark.parametrize("do", [raising(KeyError("x")), *(lambda a=a: a for a in NONSENSE)])
def test_a_faulty_score_counts_nothing(method, do):
    core = Watched(objects.node("n"), objects.node("m", cpu="99"), pod("p"), plugins=(Faulty(method, do),))
    assert bound(core.actions()) == {"p": "m"}
    assert {each.method for each in core.faults} == {method}


@pytest.mark.parametrize("answer", [[], {}, object(), ([],)])
def test_a_sign_that_cannot_be_compared_is_a_fault_and_shares_nothing(answer):
    core = Watched(objects.node("n"), pod("p"), pod("q"), plugins=(Faulty("sign", lambda: answer),))
    assert bound(core.actions()) == {"p": "n", "q": "n"}
    assert {(each.method, each.kind) for each in core.faults} == {("sign", FaultKind.NONSENSE)}
    first, second = (core.scheduler.state.placed(core.get("Pod", name)["metadata"]["uid"]) for name in "pq")
    assert first.requirements is not second.requirements


class FailsOnRed(Plugin):
    depends_on = Depends.NODE

    def filter(self, cycle, node):
        assert node.labels["colour"] != "red", f"{node.name} is red"


def test_a_fault_on_one_node_does_not_keep_pods_from_the_others():
    core = Watched(coloured("r", "red", cpu="99"), coloured("b", "blue"), plugins=(FailsOnRed(),))
    for number in range(2 * MOST_FAULTS[FaultKind.RAISED]):
        core.put(pod(f"p{number}", cpu=f"{number + 1}m"))
        assert set(bound(core.settle()).values()) == {"b"}


def test_a_method_that_does_well_once_starts_anew():
    failing = True

    def sometimes():
        if failing:
            raise ValueError("sometimes")

    core = Watched(objects.node("n"), plugins=(Faulty("prefilter", sometimes),))
    for number in range(3 * MOST_FAULTS[FaultKind.RAISED]):
        failing = number % 5 != 0
        core.put(pod(f"p{number}"))
        core.actions()
        core.remove("Pod", f"p{number}")
    assert core.faults
    assert not core.scheduler.user_plugins[0].off


def test_with_failure_policy_fail_nothing_is_placed_without_the_plugin():
    plugin = Faulty("filter", raising(ValueError("no licence server")))
    plugin.failure_policy = FailurePolicy.FAIL
    core = Watched(objects.node("n"), pod("p"), plugins=(plugin,))
    last = core.later(600)[-1]
    assert "plugin Faulty is switched off, and its failure policy Fail keeps pods pending" in last.message
    assert core.scheduler.user_plugins[0].off


def test_a_reason_of_its_own_for_each_node_makes_no_endless_text():
    class Chatty(Plugin):
        def filter(self, cycle, node):
            return Status.unschedulable(f"{node.name} is\nnot nice {'x' * 10**5}")

    core = Core(*(objects.node(f"n{number}") for number in range(50)), pod("p"), plugins=(Chatty(),))
    message = refused(core.actions())["p"]
    assert "and 30 more reasons" in message
    assert "\n" not in message
    assert len(message) < 6000


def test_two_plugins_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two plugins of the name NoRed"):
        Scheduler(Options(plugins=(NoRed(), NoRed())))
