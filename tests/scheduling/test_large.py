"""Pods and nodes as large as an API server lets them be: a decision about one stays short.

The bounds are many times what it takes, and a small part of what it takes where work grows with the product of two
large numbers.
"""

from time import process_time

import pytest

from dray.scheduling.model.actions import Refuse
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, placed, pod, refused
from tests.scheduling.test_kai_groups import kai_group, tell

LONGEST = 12.0
"""Seconds of CPU. Each case takes about one on an idle machine; what grows with the square takes minutes."""
MANY = 5000


def nodes(number, **members):
    return [objects.node(f"n{n}", labels={"zone": f"z{n % 3}"}, **members) for n in range(number)]


def ports(first, number):
    return {"ports": [{"containerPort": n, "hostPort": n} for n in range(first, first + number)]}


def labelled(document, **labels):
    return {**document, "metadata": {**document["metadata"], "labels": labels}}


def terms(number):
    return [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"x{n}"}}} for n in range(number)]


def host_ports():
    others = [placed(f"q{n}", f"n{n}", container=ports(1, 20000)) for n in range(4)]
    return [*nodes(4), *others], pod("p", container=ports(20001, 20000))


def tolerations():
    taints = [{"key": f"t{n}", "value": "5", "effect": "NoSchedule"} for n in range(50)]
    tolerated = [{"key": f"x{n}", "operator": "Gt", "value": "3"} for n in range(2 * MANY)]
    return nodes(100, taints=taints), pod("p", tolerations=tolerated)


def node_affinity():
    wanted = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [f"q{n}"]}]} for n in range(2 * MANY)]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": wanted}}
    return nodes(500), pod("p", affinity={"nodeAffinity": required})


def node_exclusion():
    wanted = [
        {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["z0", "z1", "z2", f"{n}"]}]}
        for n in range(MANY)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": wanted}}
    return nodes(500), pod("p", affinity={"nodeAffinity": required})


def anti_affinity():
    others = [labelled(placed(f"q{n}", f"n{n % 100}"), app=f"a{n}") for n in range(1000)]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms(MANY)}}
    return [*nodes(100), *others], pod("p", affinity=affinity)


def preferred_affinity():
    others = [labelled(placed(f"q{n}", f"n{n % 100}"), app=f"a{n}") for n in range(1000)]
    weighted = [{"weight": 1, "podAffinityTerm": term} for term in terms(MANY)]
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}
    return [*nodes(100), *others], pod("p", affinity=affinity)


def spreading():
    constraints = [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        for selector in (term["labelSelector"] for term in terms(MANY))
    ]
    return nodes(100), pod("p", topologySpreadConstraints=constraints)


def resources():
    wanted = {f"example.com/r{n}": "1" for n in range(2 * MANY)}
    return nodes(200), gpus.pod("p", requests=wanted, limits=wanted)


def claims():
    slices = [
        objects.resource_slice(f"s{n}", *[gpus.gpu(f"g{n}-{m}") for m in range(128)], nodeName="n0") for n in range(4)
    ]
    wanted = [f"c{n}" for n in range(500)]
    return [*nodes(2), *slices, *map(objects.claim, wanted)], pod("p", claims=wanted)


def devices():
    wanted = objects.request(count=2**63 - 1)
    return [*nodes(2), gpus.slice_of("n0"), objects.claim("c", wanted)], pod("p", claims=["c"])


LARGE = [
    host_ports,
    tolerations,
    node_affinity,
    node_exclusion,
    anti_affinity,
    preferred_affinity,
    spreading,
    resources,
    claims,
    devices,
]


@pytest.mark.parametrize("make", LARGE, ids=lambda make: make.__name__)
def test_a_decision_about_a_large_pod_is_short(make):
    there, large = make()
    core = Core(*there)
    began = process_time()
    core.put(large)
    core.actions()
    assert process_time() - began < LONGEST


def test_pods_that_each_speak_of_their_own_kind_do_not_slow_each_other_down():
    core = Core(*nodes(10, pods="1000", cpu="1000"))
    for n in range(1500):
        selector = {"matchLabels": {"app": f"a{n}"}}
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        core.put(labelled(pod(f"p{n}", affinity=affinity), app=f"a{n}"))
    began = process_time()
    assert len(bound(core.actions())) == 1500
    assert process_time() - began < 2 * LONGEST


def in_a_tree(name, part, **more):
    """A pod of a sub-group of g."""
    made = labelled(pod(name, **more), **{"kai.scheduler/subgroup-name": part})
    made["metadata"]["annotations"] = {"pod-group-name": "g"}
    return made


@pytest.mark.parametrize("first", ["", f"s{MANY - 1}"], ids=["deep", "circle"])
def test_very_many_sub_groups_below_each_other(first):
    core = Core(*nodes(1))
    parts = [{"name": f"s{n}", "parent": f"s{n - 1}" if n else first, "minMember": 1} for n in range(MANY)]
    began = process_time()
    tell(core, kai_group("g", subGroups=parts))
    core.put(in_a_tree("x", f"s{MANY - 1}"), in_a_tree("y", "s7"), in_a_tree("z", "s4"), pod("p"))
    core.put(*([in_a_tree("beside", "")] if not first else []))
    actions = core.settle()
    assert bound(actions) == {"p": "n0"}
    told = {each.key[1] for action in actions if isinstance(action, Refuse) for each in action.pods}
    assert told - {"beside"} == {"x", "y", "z"}
    assert refused(actions) == {}
    assert process_time() - began < LONGEST


def test_very_many_sub_groups_beside_each_other():
    core = Core(*nodes(1))
    began = process_time()
    tell(core, kai_group("g", subGroups=[{"name": f"s{n}", "minMember": 1} for n in range(MANY)], minSubGroup=1))
    core.put(in_a_tree("x", "s7"))
    assert bound(core.settle()) == {"x": "n0"}
    assert process_time() - began < LONGEST


def test_all_pods_of_a_large_tree_become_ready_at_once():
    core = Core(*[objects.node(f"n{n}", cpu="64") for n in range(16)])
    tell(core, kai_group("g", subGroups=[{"name": f"s{n}", "minMember": 2} for n in range(500)]))
    began = process_time()
    core.put(*[in_a_tree(f"p{n}", f"s{n // 2}", cpu="1") for n in range(1000)])
    assert len(bound(core.actions())) == 1000
    assert process_time() - began < LONGEST


def test_a_large_gang_comes_and_one_of_its_pods_goes():
    core = Core(*nodes(1))
    core.put(objects.pod_group("g", minCount=2 * MANY, uid="uid-g"))
    began = process_time()
    core.put(*[pod(f"p{n}", schedulingGroup={"podGroupName": "g"}) for n in range(2 * MANY)])
    core.remove("Pod", "p0")
    assert core.actions() == []
    assert process_time() - began < LONGEST
