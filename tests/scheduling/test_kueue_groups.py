"""Groups and topology as Kueue has them: by labels and annotations of pods."""

import json

import pytest

from dray.scheduling.quota.kueue.policy import KueueQueues
from dray.scheduling.quota.kueue.status import QueueStatuses
from dray.scheduling.quota.quota_tree import Asset
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, pod, refused, refused_groups, victims
from tests.scheduling.test_group_attempts import gang, member
from tests.scheduling.test_kai_groups import job, of_job, tell
from tests.scheduling.test_queues import GPU, QUEUE, cluster_queue, flavor, local_queue, nominal

PREFIX = "kueue.x-k8s.io/"


def topology(*levels, name="default"):
    spec = {"levels": [{"nodeLabel": label} for label in levels or ("block", "rack", "host")]}
    return "Topology.kueue.x-k8s.io", {"kind": "Topology", "metadata": {"name": name}, "spec": spec}


def hosts(*free, block="b", rack="r"):
    """Nodes with so many GPUs each: h0, h1 and so on."""
    for number, count in enumerate(free):
        name = f"{block}-{rack}-h{number}"
        yield objects.node(name, labels={"block": block, "rack": rack, "host": name})
        yield gpus.slice_of(name, count)


def grouped(name, group, total, **annotations):
    made = pod(name, claims=[name])
    made["metadata"]["labels"] = {f"{PREFIX}pod-group-name": group}
    said = {"pod-group-total-count": str(total), **{key.replace("_", "-"): value for key, value in annotations.items()}}
    made["metadata"]["annotations"] = {f"{PREFIX}{key}": value for key, value in said.items()}
    return objects.claim(name), made


def world(*more):
    core = Core(*more)
    core.state.groups.served.add("kueue.x-k8s.io")
    core.state.groups.topologies.served.add("kueue.x-k8s.io")
    return core


def counts(core, free, number, **annotations):
    """How many pods of a group of so many go to each host."""
    for n in range(number):
        core.put(*grouped(f"p{n:02}", "g", number, **annotations))
    placed = list(bound(core.settle()).values())
    assert len(placed) == number
    return [placed.count(f"b-r-h{n}") for n in range(free)]


def test_pods_of_one_label_start_together():
    core = world(*hosts(2))
    for n in range(3):
        core.put(*grouped(f"p{n}", "g", 3))
    assert "3 pods have to be placed together" in refused_groups(core.settle())["g"]
    core.put(*hosts(1, rack="s"))
    assert len(bound(core.settle())) == 3


def test_a_list_of_slices_that_is_nested_without_end_says_nothing():
    core = world(*hosts(1))
    tell(core, topology())
    core.put(*grouped("p0", "g", 1, podset_slice_required_topology_constraints="[" * 100_000))
    assert len(bound(core.settle())) == 1


def test_they_wait_until_all_are_there():
    core = world(*hosts(3), *grouped("p0", "g", 2))
    assert bound(core.settle()) == {}
    core.put(*grouped("p1", "g", 2))
    assert len(bound(core.settle())) == 2


def test_slices_within_slices():
    core = world(*hosts(4, 4), *hosts(2, 2, rack="s"))
    tell(core, topology())
    constraints = '[{"topology": "rack", "size": 4}, {"topology": "host", "size": 2}]'
    for n in range(12):
        core.put(*grouped(f"p{n:02}", "g", 12, podset_slice_required_topology_constraints=constraints))
    placed = bound(core.settle())
    assert len(placed) == 12
    names = [placed[f"p{n:02}"] for n in range(12)]
    assert all(len({name.rsplit("-", 1)[0] for name in names[n : n + 4]}) == 1 for n in range(0, 12, 4))
    assert all(names[n] == names[n + 1] for n in range(0, 12, 2))


def test_preferred_goes_up_to_where_all_have_room():
    core = world(*hosts(2), *hosts(2, rack="s"), *hosts(8, block="c"))
    tell(core, topology("block", "rack"))
    for n in range(4):
        core.put(*grouped(f"p{n}", "g", 4, podset_preferred_topology="rack"))
    assert {name[0] for name in bound(core.settle()).values()} == {"c"}
    for n in range(4):
        core.put(*grouped(f"q{n}", "h", 4, podset_preferred_topology="rack"))
    assert set(bound(core.settle()).values()) == {"c-r-h0"}
    for n in range(4):
        core.put(*grouped(f"s{n}", "i", 4, podset_preferred_topology="rack"))
    assert {name[0] for name in bound(core.settle()).values()} == {"b"}


def test_a_replaced_pod_goes_back_to_its_slice():
    core = world(*hosts(2, 2, 2))
    tell(core, topology())
    said = {"podset_slice_required_topology": "host", "podset_slice_size": "2"}
    for n in range(4):
        core.put(*grouped(f"p{n}", "g", 4, **said))
    before = bound(core.settle())
    assert len(before) == 4
    core.remove_with_claims("p1")
    core.put(*grouped("p1", "g", 4, **said))
    assert bound(core.settle()) == {"p1": before["p0"]}


def test_a_level_that_no_topology_has_is_waited_for():
    core = world(*hosts(2), *grouped("p", "g", 1, podset_required_topology="row"))
    assert "Topology with level row" in refused_groups(core.settle())["g"]
    tell(core, topology("row", "host"))
    assert "no feasible placements found" in refused_groups(core.settle())["g"]


def test_the_pods_of_a_job_are_one_group_where_they_speak_of_topology():
    core = world(*hosts(1, 1), *hosts(2, 2, rack="s"))
    tell(core, topology())
    template = {"annotations": {f"{PREFIX}podset-required-topology": "rack"}}
    tell(core, job("j", None, template, parallelism=3, completions=3))
    for n in range(3):
        assert bound(core.settle()) == {}
        core.put(*of_job(f"j-{n}", "j", **template))
    assert {name.rsplit("-", 1)[0] for name in bound(core.settle()).values()} == {"b-s"}


def test_pods_of_neighbouring_index_are_in_neighbouring_places():
    core = world(*hosts(2, 2), *hosts(2, 2, rack="s"))
    tell(core, topology())
    template = {"annotations": {f"{PREFIX}podset-required-topology": "block"}}
    tell(core, job("j", None, template, parallelism=8, completions=8))
    for n in (3, 7, 0, 5, 1, 6, 2, 4):
        index = {"batch.kubernetes.io/job-completion-index": str(n)}
        core.put(*of_job(f"j-{n}-xyz", "j", annotations={**template["annotations"], **index}))
    placed = bound(core.settle())
    nodes = [placed[f"j-{n}-xyz"] for n in range(8)]
    assert all(nodes[n] == nodes[n + 1] for n in range(0, 8, 2))
    assert len({name.rsplit("-", 1)[0] for name in nodes[:4]}) == 1


def test_what_pods_say_of_topology_counts_for_a_group_of_another_api():
    core = world(*hosts(1, 1), *hosts(2, rack="s"))
    for n in range(2):
        made = member(f"p{n}", claims=[f"p{n}"])
        made["metadata"]["annotations"] = {f"{PREFIX}podset-required-topology": "rack"}
        core.put(objects.claim(f"p{n}"), made)
    core.put(gang("g", 2))
    assert "Topology with level rack" in refused_groups(core.settle())["g"]
    tell(core, topology("rack", "host"))
    core.put(*hosts(1, rack="s"))
    assert {name.rsplit("-", 1)[0] for name in bound(core.settle()).values()} == {"b-r"}


def test_where_kueue_itself_is_at_work_it_decides_on_topology():
    core = world(*hosts(1, 1))
    core.state.groups.topologies.served.clear()
    for n in range(2):
        core.put(*grouped(f"p{n}", "g", 2, podset_required_topology="row"))
    assert len(bound(core.settle())) == 2


def test_two_memberships_that_differ_keep_a_pod_waiting():
    claim, made = grouped("p", "g", 1)
    made["metadata"]["annotations"]["pod-group-name"] = "other"
    core = world(*hosts(2), claim, made)
    assert "kueue.x-k8s.io/g" in refused(core.settle())["p"]


def test_the_group_is_gone_with_its_last_pod():
    core = world(*hosts(2), *grouped("p", "g", 1))
    assert list(bound(core.settle())) == ["p"]
    core.remove_with_claims("p")
    assert core.state.groups.forest.all() == []


def test_the_queue_of_a_group_of_kueue_is_none_of_kai():
    core = world(*hosts(2), objects.namespace("default"))
    core.put(flavor(), cluster_queue("team", ("any", {GPU: nominal(2)})), local_queue("team", "team"))
    core.put({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "other"}, "spec": {}})
    for number in range(2):
        claim, made = grouped(f"p{number}", "g", 2)
        made["metadata"]["labels"][QUEUE] = "team"
        core.put(claim, made)
    assert len(bound(core.settle())) == 2


def fast(name, group, total, **annotations):
    return grouped(name, group, total, pod_group_fast_admission="true", **annotations)


def queued(made):
    claim, found = made
    found["metadata"]["labels"][QUEUE] = "team"
    return claim, found


def test_with_fast_admission_pods_start_as_they_come():
    core = world(*hosts(3))
    for n in range(3):
        core.put(*fast(f"p{n}", "g", 3))
        assert list(bound(core.settle())) == [f"p{n}"]


def test_with_fast_admission_the_first_pod_asks_for_quota_for_all():
    core = world(*hosts(4), objects.namespace("default"))
    core.put(flavor(), cluster_queue("team", ("any", {GPU: nominal(2)})), local_queue("team", "team"))
    claim, first = queued(fast("p0", "g", 3))
    entry = first["spec"]["resourceClaims"][0]
    entry["resourceClaimTemplateName"] = entry.pop("resourceClaimName")
    first["status"] = {"resourceClaimStatuses": [{"name": entry["name"], "resourceClaimName": "p0"}]}
    first["metadata"]["uid"] = "p0"
    claim["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "p0", "uid": "p0", "controller": True}]
    core.put(claim, first)
    assert "3 are needed" in refused(core.settle())["p0"]
    core.put(cluster_queue("team", ("any", {GPU: nominal(3)})))
    assert list(bound(core.settle())) == ["p0"]
    core.put(*queued(fast("p1", "g", 3)), *queued(fast("p2", "g", 3)))
    assert len(bound(core.settle())) == 2


def test_with_fast_admission_a_claim_that_all_share_is_asked_for_once():
    core = world(*hosts(4), objects.namespace("default"))
    core.put(flavor(), cluster_queue("team", ("any", {GPU: nominal(1)})), local_queue("team", "team"))
    core.put(*queued(fast("p0", "g", 3)))
    assert list(bound(core.settle())) == ["p0"]


def test_with_fast_admission_the_first_pod_goes_where_all_have_room():
    core = world(*hosts(1, 1), *hosts(2, 2, rack="s"))
    tell(core, topology())
    for n in range(3):
        core.put(*fast(f"p{n}", "g", 3, podset_required_topology="rack"))
        assert [each.rsplit("-", 1)[0] for each in bound(core.settle()).values()] == ["b-s"]


def test_with_fast_admission_pods_wait_where_no_domain_has_room_for_all():
    core = world(*hosts(1, 1), *hosts(1, 1, rack="s"))
    tell(core, topology())
    core.put(*fast("p0", "g", 3, podset_required_topology="rack"))
    assert bound(core.settle()) == {}
    core.put(*hosts(3, rack="t"))
    assert list(bound(core.settle()).values()) == ["b-t-h0"]


def topological(name, topology, **labels):
    found = flavor(name, **labels)
    found["spec"]["topologyName"] = topology
    return found


def test_a_queue_lets_nobody_in_before_the_topology_of_its_flavor_is_there():
    core = world(*hosts(1), objects.namespace("default"))
    core.put(topological("any", "default"), cluster_queue("team", ("any", {GPU: nominal(2)})))
    core.put(local_queue("team", "team"), *queued(grouped("p", "g", 1)))
    assert "Topology default not found" in refused(core.settle())["p"]
    queues = core.state.queues.system(KueueQueues)
    assert QueueStatuses(queues, 0.0)._state(queues.all()[0])[:2] == ("False", "TopologyNotFound")
    tell(core, topology())
    assert list(bound(core.settle())) == ["p"]


def test_nodes_without_the_labels_of_the_topology_are_not_of_the_flavor():
    core = world(objects.node("bare"), gpus.slice_of("bare", 4), *hosts(1), objects.namespace("default"))
    tell(core, topology())
    core.put(topological("any", "default"), cluster_queue("team", ("any", {GPU: nominal(4)})))
    core.put(local_queue("team", "team"), *queued(grouped("p", "g", 1)), *queued(grouped("q", "h", 1)))
    actions = core.settle()
    assert list(bound(actions).values()) == ["b-r-h0"]
    assert len(refused(actions)) == 1


def test_the_topology_of_the_flavor_is_meant_where_several_have_the_level():
    core = world(*hosts(1, 1, 1), objects.namespace("default"))
    tell(core, topology("block", "rack", name="a"), topology("rack", "host", name="b"))
    core.put(topological("any", "b"), cluster_queue("team", ("any", {GPU: nominal(4)})))
    core.put(*queued(grouped("p", "g", 1, podset_required_topology="rack")))
    (group,) = core.state.groups.forest.all()
    assert group.topology.required == ("block", "rack")
    core.put(local_queue("team", "team"))
    (group,) = core.state.groups.forest.all()
    assert group.topology.required == ("rack",)
    assert group.topology.levels == ("rack", "host")


def served(name, group, total, fast=False):
    """A pod of a queue with a claim of its own."""
    claim, made = grouped(name, group, total, **{"pod_group_fast_admission" if fast else "pod_group_serving": "true"})
    entry = made["spec"]["resourceClaims"][0]
    entry["resourceClaimTemplateName"] = entry.pop("resourceClaimName")
    made["status"] = {"resourceClaimStatuses": [{"name": entry["name"], "resourceClaimName": name}]}
    made["metadata"]["uid"] = name
    claim["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": name, "uid": name, "controller": True}]
    return queued((claim, made))


def with_quota(number, **policy):
    core = world(*hosts(8), objects.namespace("default"))
    core.put(flavor(), cluster_queue("team", ("any", {GPU: nominal(number)}), **policy), local_queue("team", "team"))
    return core


def charged(core):
    return core.state.queues.system(KueueQueues).tree.used("team", Asset("any", GPU))


def test_a_serving_group_keeps_quota_for_pods_that_replace_others():
    core = with_quota(3)
    for n in range(3):
        core.put(*served(f"p{n}", "g", 3))
    assert len(bound(core.settle())) == 3
    core.remove_with_claims("p1")
    assert charged(core) == 3
    core.put(*queued(grouped("other", "h", 1)))
    assert bound(core.settle()) == {}
    core.put(*served("again", "g", 3))
    assert list(bound(core.settle())) == ["again"]
    for name in ("p0", "p2", "again"):
        core.remove_with_claims(name)
    assert list(bound(core.settle())) == ["other"]
    assert charged(core) == 1


def test_a_group_that_starts_one_by_one_keeps_quota_for_those_that_are_yet_to_come():
    core = with_quota(3)
    core.put(*served("p0", "g", 3, fast=True))
    assert list(bound(core.settle())) == ["p0"]
    assert charged(core) == 3
    core.put(*queued(grouped("other", "h", 1)))
    assert bound(core.settle()) == {}
    for name in ("p1", "p2"):
        core.put(*served(name, "g", 3, fast=True))
        assert list(bound(core.settle())) == [name]
    assert charged(core) == 3
    assert bound(core.settle()) == {}


def test_a_pod_more_than_a_group_said_asks_for_quota_like_any_other():
    core = with_quota(2)
    for n in range(3):
        core.put(*served(f"p{n}", "g", 2))
    assert len(bound(core.settle())) == 2


def test_a_group_that_is_asked_to_go_keeps_nothing():
    core = with_quota(3, preemption={"withinClusterQueue": "LowerPriority"})
    for n in range(3):
        core.put(*served(f"p{n}", "g", 3))
    assert len(bound(core.settle())) == 3
    claim, urgent = queued(grouped("urgent", "h", 1))
    urgent["spec"]["priority"] = 9
    core.put(claim, urgent)
    actions = core.settle()
    assert sorted(victims(actions)) == ["p0", "p1", "p2"], "a group goes as a whole"
    assert list(bound(actions)) == ["urgent"]
    assert charged(core) == 1


def test_what_is_kept_is_the_same_when_everything_is_reckoned_anew():
    core = with_quota(3)
    core.put(*served("p0", "g", 3, fast=True))
    core.settle()
    core.put(cluster_queue("team", ("any", {GPU: nominal(4)})))
    core.state.queues.system(KueueQueues).charges.refresh()
    assert charged(core) == 3
    core.put(*queued(grouped("other", "h", 1)))
    assert list(bound(core.settle())) == ["other"]
    core.remove_with_claims("p0")
    core.settle()
    assert charged(core) == 1


def test_what_is_kept_is_the_same_after_a_trial_and_after_a_restart():
    """The pods that are there differ; one more is missing, and each is taken out of the quota once."""
    cpu = Asset("any", "cpu")
    core = with_quota(8)
    core.put(cluster_queue("team", ("any", {GPU: nominal(8), "cpu": nominal(20)})))
    for name, amount, created in (("p0", "1", "2026-01-01T00:00:02Z"), ("p1", "3", "2026-01-01T00:00:01Z")):
        claim, made = served(name, "g", 3, fast=True)
        made["metadata"]["creationTimestamp"] = created
        made["spec"]["containers"][0].setdefault("resources", {})["requests"] = {"cpu": amount}
        core.put(claim, made)
        assert list(bound(core.settle())) == [name]
    policy = core.state.queues.system(KueueQueues)
    assert policy.tree.used("team", cpu) == 1000 + 3000 + 3000
    for name in ("p0", "p1"):
        with core.state.what_if() as trial:
            policy.charges.set_aside(core.state.placed(name), trial)
        assert policy.tree.used("team", cpu) == 7000
    again = world(*core.objects.values())
    again.settle()
    assert again.state.queues.system(KueueQueues).tree.used("team", cpu) == 7000


def test_what_a_group_keeps_is_known_after_a_restart():
    core = with_quota(3)
    claim, there = served("p0", "g", 3)
    there["spec"]["nodeName"] = "b-r-h0"
    core.put(claim, there, *queued(grouped("other", "h", 1)))
    assert bound(core.settle()) == {}
    assert charged(core) == 3


def sliced(name="p", **annotations):
    """A pod without a group that says something of slices."""
    made = pod(name, cpu="1")
    said = {f"{PREFIX}podset-{key.replace('_', '-')}": value for key, value in annotations.items()}
    made["metadata"]["annotations"] = said
    made["metadata"]["labels"] = {QUEUE: "team"}
    return made


def layers(**sizes):
    return json.dumps([{"topology": level, "size": size} for level, size in sizes.items()])


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({"required_topology": "host", "slice_required_topology": "block", "slice_size": "1"}, "block is above"),
        ({"required_topology": "block", "slice_required_topology": "host"}, "podset-slice-size is missing"),
        ({"slice_required_topology": "cage", "slice_size": "2"}, "no level cage"),
        ({"required_topology": "cage"}, "no level cage"),
        (
            {"slice_required_topology_constraints": layers(host=4, rack=2)},
            "rack is above",
        ),
        (
            {"slice_required_topology_constraints": layers(rack=4, host=3)},
            "3 does not divide",
        ),
    ],
)
def test_slices_that_contradict_or_do_not_exist_are_refused(annotations, text):
    core = world(*hosts(2))
    tell(core, topology())
    core.put(sliced(**annotations))
    actions = core.settle()
    assert bound(actions) == {}
    assert text in refused(actions)["p"]


def test_a_pod_whose_level_did_not_exist_is_tried_once_it_does():
    core = world(*hosts(2))
    tell(core, topology())
    core.put(sliced(required_topology="zone"))
    assert bound(core.settle()) == {}
    tell(core, topology("zone", "rack"))
    assert list(bound(core.settle())) == ["p"]


def test_a_group_with_slices_that_contradict_each_other_is_refused():
    core = world(*hosts(2, 2))
    tell(core, topology())
    said = {"podset_required_topology": "host", "podset_slice_required_topology": "rack", "podset_slice_size": "1"}
    core.put(*(each for n in range(2) for each in grouped(f"g-{n}", "g", 2, **said)))
    actions = core.settle()
    assert bound(actions) == {}
    assert "rack is above" in refused_groups(actions)["g"]


def test_a_flavor_with_a_topology_implies_unconstrained_placement():
    core = world(*hosts(4, 3, 2))
    core.put({"kind": "ResourceFlavor", "metadata": {"name": "tas"}, "spec": {"topologyName": "default"}})
    tell(core, topology())
    core.put(cluster_queue("team", ("tas", {"cpu": nominal(9), GPU: nominal(9)})), local_queue("team", "team"))
    for n in range(3):
        claim, made = grouped(f"g-{n}", "g", 3)
        made["metadata"]["labels"][QUEUE] = "team"
        core.put(claim, made)
    placed = list(bound(core.settle()).values())
    assert sorted(placed) == ["b-r-h1", "b-r-h2", "b-r-h2"], "nodes with the least room are filled first"
