"""Classes of nodes: the vectors of the reference by name (T15, T16), and what the rules of a class can say."""

import pytest

from dray.scheduling.cluster.compute_class import LABEL, read
from dray.scheduling.explain.explainer import Explainer
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, pod, refused, refused_groups
from tests.scheduling.test_group_attempts import gang, member

GKE = "cloud.google.com/"
H100 = {"type": "nvidia-h100-80gb", "count": 8}
A100 = {"type": "nvidia-a100-80gb", "count": 8}
OWN_TAINT = objects.taint(LABEL, value="train")


def compute_class(*rules, name="train", unsatisfiable="DoNotScaleUp", **spec):
    spec = {"priorities": list(rules), "whenUnsatisfiable": unsatisfiable, **spec}
    return {"apiVersion": "cloud.google.com/v1", "kind": "ComputeClass", "metadata": {"name": name}, "spec": spec}


def node(name, *, of="train", taints=(OWN_TAINT,), cpu="64", **labels):
    """With labels of GKE, whose names have dashes."""
    found = {f"{GKE}{key.replace('_', '-')}": value for key, value in labels.items()}
    if of:
        found[LABEL] = of
    amounts = {"cpu": cpu, "memory": "256Gi", "pods": "110"}
    return objects.node(name, labels=found, taints=list(taints), status={"allocatable": amounts, "capacity": amounts})


def accelerated(name, gpu, **labels):
    return node(name, gke_accelerator=gpu["type"], gke_accelerator_count=str(gpu["count"]), **labels)


def asking(name="p", of="train", **spec):
    return pod(name, nodeSelector={LABEL: of}, **spec)


def t15(unsatisfiable):
    rules = [{"gpu": H100, "spot": True}, {"gpu": A100}]
    core = Core(compute_class(*rules, unsatisfiable=unsatisfiable), accelerated("h100-on-demand", H100))
    core.put(asking("first", container={"ports": [{"containerPort": 80, "hostPort": 80}]}))
    return core


def test_t15_a_node_that_no_rule_matches_is_not_used():
    core = t15("DoNotScaleUp")
    (message,) = refused(core.settle()).values()
    assert message == "0/1 nodes are available: 1 node(s) didn't match any priority of ComputeClass train."
    core.put(accelerated("a100", A100))
    assert bound(core.settle()) == {"first": "a100"}


def test_t15_with_scale_up_anyway_it_is_the_last_choice():
    core = t15("ScaleUpAnyway")
    core.put(accelerated("a100", A100))
    core.put(asking("second", container={"ports": [{"containerPort": 80, "hostPort": 80}]}))
    assert bound(core.settle()) == {"first": "a100", "second": "h100-on-demand"}


def test_t16_rules_of_equal_score_are_of_equal_rank():
    rules = [{"machineFamily": family, "priorityScore": score} for family, score in (("a3", 5), ("a4", 5), ("g2", 1))]
    assert read(compute_class(*rules)).ranks == (0, 0, 1)
    core = Core(compute_class(*rules), node("g2", machine_family="g2"), node("a4", machine_family="a4", cpu="4"))
    core.put(node("a3", machine_family="a3", cpu="8"))
    core.put(*(asking(f"p{n}", cpu="1") for n in range(4)))
    # By rank alone all of them would be on the first of the two.
    assert set(bound(core.settle()).values()) == {"a3", "a4"}


def test_rank_comes_before_whatever_else_speaks_for_a_node():
    core = Core(compute_class({"machineFamily": "a3"}, {"machineFamily": "g2"}, unsatisfiable="ScaleUpAnyway"))
    core.put(node("small", machine_family="a3", cpu="1"), node("large", machine_family="g2", cpu="64"))
    core.put(asking("p", cpu="900m"), asking("q", cpu="900m"))
    assert bound(core.settle()) == {"p": "small", "q": "large"}


def test_pods_of_the_class_tolerate_its_taint_and_others_do_not():
    core = Core(compute_class({"machineFamily": "a3"}), node("n", machine_family="a3"))
    core.put(asking("inside"), pod("outside"))
    actions = core.settle()
    assert bound(actions) == {"inside": "n"}
    assert "untolerated taint" in refused(actions)["outside"]


def test_required_affinity_names_a_class_too():
    core = Core(compute_class({"machineFamily": "a3"}), node("n", machine_family="a3"), node("m", machine_family="g2"))
    terms = [{"matchExpressions": [{"key": LABEL, "operator": "In", "values": ["train"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    core.put(pod("p", affinity={"nodeAffinity": required}))
    assert bound(core.settle()) == {"p": "n"}


def test_the_class_default_ranks_nodes_for_pods_that_name_none():
    core = Core(
        node("plain", of="", taints=(), machine_family="n2"), node("best", of="", taints=(), machine_family="c3")
    )
    own = objects.taint(LABEL, value="default")
    core.put(compute_class({"machineFamily": "c3"}, {"machineFamily": "e2"}, name="default"))
    core.put(node("second", of="default", taints=[own], machine_family="e2"))
    ports = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    order = []
    for number in range(3):
        core.put(pod(f"p{number}", container=ports))
        order += bound(core.settle()).values()
    # No rule speaks of the last; without the class it would be as good as any.
    assert order == ["best", "second", "plain"]


def test_a_class_that_comes_later_or_changes_counts_from_then_on():
    core = Core(node("g2", machine_family="g2"), node("a3", machine_family="a3"))
    core.put(compute_class({"machineFamily": "c3"}), asking("p"))
    assert bound(core.settle()) == {}
    core.put(compute_class({"machineFamily": "a3"}))
    assert bound(core.settle()) == {"p": "a3"}
    core.put(compute_class({"machineFamily": "g2"}), asking("q"))
    assert bound(core.settle()) == {"q": "g2"}
    core.remove("ComputeClass", "train")
    core.put(asking("r"))
    # Nobody tolerates the taint any more.
    assert bound(core.settle()) == {}


def test_a_gang_is_on_nodes_of_one_rank_before_it_is_on_several():
    rules = [{"machineFamily": "a4"}, {"machineFamily": "a3"}, {"machineFamily": "a2"}]
    there = [node(f"{family}-{n}", machine_family=family) for family in ("a4", "a3", "a2") for n in range(2)]
    slices = [gpus.slice_of(f"a4-{n}", 1) for n in range(2)]
    slices += [gpus.slice_of(f"{family}-{n}", 2) for family in ("a3", "a2") for n in range(2)]

    def placed(size):
        core = Core(compute_class(*rules), *there, *slices, gang("g", size))
        for n in range(size):
            spec = {"nodeSelector": {LABEL: "train"}}
            core.put(objects.claim(f"g-{n}"), member(f"g-{n}", claims=[f"g-{n}"], **spec))
        actions = core.settle()
        return sorted({name[:2] for name in bound(actions).values()}) or refused_groups(actions)["g"]

    assert placed(2) == ["a4"]
    assert placed(4) == ["a3"]
    # The best two ranks together, not the second and the third.
    assert placed(6) == ["a3", "a4"]
    assert placed(10) == ["a2", "a3", "a4"]
    assert placed(11).startswith("11 pods have to be placed together, but only 10 fit.")


def test_heavier_node_pools_come_first_for_pods_that_ask_for_one():
    def pool(name, **spec):
        return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}

    core = Core(pool("light", weight=10), pool("heavy", weight=50), pool("none"))
    for name in ("none", "light", "heavy"):
        core.put(objects.node(name, labels={"karpenter.sh/nodepool": name}))
    terms = [{"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "Exists"}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    ports = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    order = []
    for number in range(3):
        core.put(pod(f"p{number}", affinity={"nodeAffinity": required}, container=ports))
        order += bound(core.settle()).values()
    assert order == ["heavy", "light", "none"]


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ({"nodepools": ["a", "b"]}, {"gke_nodepool": "b"}, {"gke_nodepool": "c"}),
        ({"machineFamily": "a3"}, {"machine_family": "a3"}, {}),
        ({"spot": True}, {"gke_spot": "true"}, {}),
        ({"spot": True}, {"gke_provisioning": "spot"}, {"gke_provisioning": "standard"}),
        ({"spot": False}, {}, {"gke_spot": "true"}),
        ({"flexStart": {"enabled": True}}, {"gke_flex_start": "true"}, {"gke_spot": "true"}),
        ({"gpu": {"count": 8}}, {"gke_accelerator_count": "8"}, {"gke_accelerator_count": "16"}),
        (
            {"gpu": {"gpuSharing": {"sharingStrategy": "TIME_SHARING"}}},
            {"gke_gpu_sharing_strategy": "time-sharing"},
            {"gke_gpu_sharing_strategy": "mps"},
        ),
        ({"tpu": {"type": "v6e", "count": 4}}, {"gke_tpu_accelerator": "v6e", "gke_accelerator_count": "4"}, {}),
        ({"minCores": 16}, {"cpu": "16"}, {"cpu": "8"}),
        ({"minMemoryGb": 256}, {}, None),
        ({"minMemoryGb": 512}, None, {}),
        ({"maxPodsPerNode": 32}, {"gke_max_pods_per_node": "32"}, {"gke_max_pods_per_node": "64"}),
        ({"storage": {"bootDiskType": "pd-ssd"}}, {"gke_boot_disk": "pd-ssd"}, {"gke_boot_disk": "pd-standard"}),
        ({"placement": {"policyName": "near"}}, {"placement_policy_name": "near"}, {}),
        (
            {"reservations": {"affinity": "Specific", "specific": [{"name": "x", "project": "p"}, {"name": "y"}]}},
            {"reservation_name": "y"},
            {"reservation_name": "x"},
        ),
        ({"reservations": {"affinity": "None"}}, {}, {"reservation_name": "x"}),
        ({}, {}, None),
        # Not of the right form: nobody is hurt.
        ({"gpu": 7, "location": [], "taints": {"a": 1}, "reservations": "x"}, {}, None),
    ],
)
def test_what_a_rule_says_of_a_node(rule, good, bad):
    for labels, fits in ((good, True), (bad, False)):
        if labels is not None:
            core = Core(compute_class(rule), node("n", **labels), asking())
            assert bool(bound(core.settle())) is fits, labels


def test_zones_labels_taints_and_what_all_nodes_must_have():
    own = {**OWN_TAINT}
    special = objects.taint("special", value="x")
    rule = {"taints": [{"key": "special", "value": "x", "effect": "NoSchedule"}], "nodeLabels": {"tier": "gold"}}
    core = Core(
        compute_class(
            rule, priorityDefaults={"location": {"zones": ["z1", "z2"]}}, nodePoolConfig={"nodeLabels": {"team": "ml"}}
        )
    )
    tolerating = [{"key": "special", "operator": "Exists"}]
    good = {"topology.kubernetes.io/zone": "z2", "tier": "gold", "team": "ml", LABEL: "train"}
    for number, missing in enumerate(["topology.kubernetes.io/zone", "tier", "team"]):
        labels = {key: value for key, value in good.items() if key != missing}
        core.put(objects.node(f"n{number}", labels=labels, taints=[own, special]))
    core.put(objects.node("n3", labels=good, taints=[own]))
    core.put(asking("p", tolerations=tolerating))
    assert bound(core.settle()) == {}
    core.put(objects.node("n4", labels=good, taints=[own, special]))
    assert bound(core.settle()) == {"p": "n4"}


def test_explain_tells_what_the_nearest_rule_wants():
    core = t15("DoNotScaleUp")
    core.put(node("other", gke_accelerator="nvidia-l4"))
    core.settle()
    queued = next(iter(core.scheduler.queue.all()))
    answers = {each.node: each for each in Explainer(core.scheduler).explain(queued.pod, core.now).nodes}
    (detail,) = answers["h100-on-demand"].details
    assert (detail.node_class, detail.rule) == ("train", 0)
    assert [each.key for each in detail.mismatches] == [f"{GKE}gke-spot"]
    (detail,) = answers["other"].details
    assert (detail.rule, [each.actual for each in detail.mismatches]) == (1, ["nvidia-l4", None])


def test_what_nobody_acts_on_is_listed():
    found = read(
        compute_class({"podFamily": "general-purpose", "spot": True}, activeMigration={"optimizeRulePriority": True})
    )
    assert found.ignored == ("spec.activeMigration", "spec.priorities[].podFamily")


def test_pods_without_class_are_asked_nothing():
    core = Core(objects.node("n"), pod("p"))
    calls = []
    core.state.node_classes.rank = lambda *args: calls.append(args)
    assert bound(core.settle()) == {"p": "n"}
    assert not calls


def test_nodes_whose_taint_is_that_of_the_class_count_for_spreading():
    core = Core(compute_class({"machineFamily": "a3"}))
    for name in ("x", "y"):
        core.put(node(name, machine_family="a3", zone=name))
    spread = {
        "topologyKey": f"{GKE}zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    for number in range(4):
        made = asking(f"p{number}", topologySpreadConstraints=[spread])
        made["metadata"]["labels"] = {"app": "a"}
        core.put(made)
    assert sorted(bound(core.settle()).values()) == ["x", "x", "y", "y"]
