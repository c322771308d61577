"""Groups of KAI: sub-groups, topology by name, what is refused."""

from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, pod, refused, refused_groups

API = "scheduling.run.ai"


def kai_topology(name="net", *levels):
    spec = {"levels": [{"nodeLabel": label, "alias": label.title()} for label in levels or ("zone", "rack")]}
    return "Topology.kai.scheduler", {"kind": "Topology", "metadata": {"name": name}, "spec": spec}


def kai_group(name, **spec):
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return f"PodGroup.{API}", {"kind": "PodGroup", "metadata": metadata, "spec": spec}


def constraint(required="", preferred="", name="net"):
    return {"topology": name, "requiredTopologyLevel": required, "preferredTopologyLevel": preferred}


def tell(core, *found):
    for kind, document in found:
        core.scheduler.put(kind, document, core.now)


def kai_member(name, group, part="", **more):
    made = pod(name, claims=[name], **more)
    made["metadata"]["annotations"] = {"pod-group-name": group}
    made["metadata"]["labels"] = {"kai.scheduler/subgroup-name": part} if part else {}
    return objects.claim(name), made


def racks(**free):
    """Nodes by zone and rack: a1=2 is rack 1 of zone a with two GPUs."""
    for name, number in free.items():
        yield objects.node(name, labels={"zone": name[0], "rack": name[1:]})
        yield gpus.slice_of(name, number)


def members(core, group, number, part=""):
    for n in range(number):
        core.put(*kai_member(f"{group}{part}-{n}", group, part))


def test_a_group_starts_as_a_whole():
    core = Core(*racks(a1=2))
    tell(core, kai_group("g", minMember=3))
    members(core, "g", 3)
    assert bound(core.settle()) == {}
    core.put(*racks(a2=1))
    assert len(bound(core.settle())) == 3


def test_the_zone_with_the_tightest_fit_and_its_fullest_rack():
    """The worked example of the reference, 5.3."""
    core = Core(*racks(a1=2, a2=1, a3=1, a4=1, b1=2, b2=2, b3=2))
    tell(core, kai_topology(), kai_group("g", minMember=3, topologyConstraint=constraint("zone", "Rack")))
    members(core, "g", 3)
    placed = list(bound(core.settle()).values())
    assert placed.count("a1") == 2
    assert {name[0] for name in placed} == {"a"}


def test_a_rack_of_the_same_name_in_another_zone_is_another_rack():
    core = Core(*racks(a1=1, b1=1))
    tell(core, kai_topology(), kai_group("g", minMember=2, topologyConstraint=constraint("rack")))
    members(core, "g", 2)
    assert "0/2 placements are available" in refused_groups(core.settle())["g"]


def test_sub_groups_have_their_own_minimum_and_topology():
    core = Core(*racks(a1=2, a2=2, b1=4))
    parts = [
        {"name": "left", "minMember": 2, "topologyConstraint": constraint("rack")},
        {"name": "right", "minMember": 2, "topologyConstraint": constraint("rack")},
    ]
    tell(core, kai_topology(), kai_group("g", subGroups=parts, topologyConstraint=constraint("zone")))
    members(core, "g", 2, "left")
    assert bound(core.settle()) == {}
    members(core, "g", 2, "right")
    placed = bound(core.settle())
    assert len(placed) == 4
    assert len({placed[f"gleft-{n}"] for n in range(2)}) == 1


def test_so_many_sub_groups_are_enough():
    core = Core(*racks(a1=2))
    parts = [{"name": name, "minMember": 2} for name in ("x", "y")]
    tell(core, kai_group("g", minSubGroup=1, subGroups=parts))
    members(core, "g", 2, "x")
    members(core, "g", 2, "y")
    assert len(bound(core.settle())) == 2


def test_sub_groups_of_sub_groups():
    core = Core(*racks(a1=3))
    parts = [{"name": "top", "minSubGroup": 2}, *({"name": n, "parent": "top", "minMember": 1} for n in ("x", "y"))]
    tell(core, kai_group("g", subGroups=parts))
    members(core, "g", 1, "x")
    assert bound(core.settle()) == {}
    members(core, "g", 1, "y")
    assert len(bound(core.settle())) == 2


def test_a_sub_group_that_is_gone_is_forgotten():
    core = Core(*racks(a1=3))
    parts = [{"name": name, "minMember": 1} for name in ("x", "y")]
    tell(core, kai_group("g", subGroups=parts))
    members(core, "g", 1, "x")
    assert bound(core.settle()) == {}
    tell(core, kai_group("g", subGroups=parts[:1]))
    assert len(bound(core.settle())) == 1


def test_a_pod_that_names_no_sub_group_waits():
    core = Core(*racks(a1=3))
    tell(core, kai_group("g", subGroups=[{"name": "x", "minMember": 1}]))
    members(core, "g", 1)
    assert bound(core.settle()) == {}


def test_sub_groups_that_are_their_own_parents_are_reported():
    core = Core(*racks(a1=3))
    parts = [{"name": "x", "parent": "y", "minMember": 1}, {"name": "y", "parent": "x"}, {"name": "z", "parent": "z"}]
    tell(core, kai_group("g", subGroups=parts))
    members(core, "g", 1, "x")
    members(core, "g", 1, "z")
    found = refused_groups(core.settle())
    assert sorted(found) == ["g/x", "g/z"]
    assert all("cycle" in each for each in found.values())


ODD = (None, 0, -1, 1 << 70, "", "x", "9" * 30, [], [None, 1, {}], {}, {"x": 1}, True, 1.5)


def test_whatever_stands_in_a_group_nothing_else_is_harmed():
    core = Core(*racks(a1=3))
    for number, odd in enumerate(ODD):
        for member in ("minMember", "minSubGroup", "subGroups", "topologyConstraint", "queue", "preemptibility"):
            tell(core, kai_group(f"g{number}", **{member: odd}))
        tell(core, kai_group(f"h{number}", subGroups=[{"name": odd, "parent": odd, "topologyConstraint": odd}]))
        tell(core, ("Topology.kai.scheduler", {"metadata": {"name": "t"}, "spec": odd}))
        tell(core, ("Topology.kueue.x-k8s.io", {"metadata": {"name": "t"}, "spec": {"levels": odd}}))
        said = dict.fromkeys(("kai.scheduler/batch-min-member", "kai.scheduler/topology"), odd)
        template = {"annotations": {"kai.scheduler/segment-size": odd, "kueue.x-k8s.io/podset-slice-size": odd}}
        tell(core, job(f"j{number}", said, template, parallelism=odd, completions=odd))
        made = pod(f"p{number}")
        made["metadata"]["annotations"] = {"pod-group-name": odd, "kueue.x-k8s.io/podset-required-topology": odd}
        core.put(made)
    assert core.settle() is not None
    core.put(objects.claim("good"), pod("good", claims=["good"]))
    assert "good" in bound(core.settle())


def test_a_level_that_nobody_knows_is_waited_for():
    core = Core(*racks(a1=3))
    tell(core, kai_group("g", minMember=2, topologyConstraint=constraint("rack")))
    members(core, "g", 2)
    assert "names Topology net, which does not exist" in refused_groups(core.settle())["g"]
    tell(core, kai_topology("net", "zone"))
    assert "level rack of Topology net" in refused_groups(core.settle())["g"]
    tell(core, kai_topology("net", "zone", "rack"))
    assert len(bound(core.settle())) == 2


def test_shares_of_a_gpu_by_annotation_are_refused():
    core = Core(*racks(a1=3))
    made = pod("p")
    made["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    core.put(made)
    assert list(bound(core.settle())) == ["p"]
    tell(core, kai_group("g"))
    other = pod("q")
    other["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    core.put(other)
    assert (
        "annotation gpu-fraction is not supported: request a share of a GPU in a ResourceClaim"
        in refused(core.settle())["q"]
    )


def job(name, annotations=None, template=None, **spec):
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations or {}}
    return "Job", {"kind": "Job", "metadata": metadata, "spec": {"template": {"metadata": template or {}}, **spec}}


def of_job(name, owner, **metadata):
    made = pod(name, claims=[name])
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"uid-{owner}", "controller": True}
    made["metadata"] |= {"ownerReferences": [reference], **metadata}
    return objects.claim(name), made


def test_pods_of_a_job_that_says_how_many_start_together():
    core = Core(*racks(a1=1, a2=1, b1=3))
    template = {"labels": {"kai.scheduler/queue": "team"}}
    said = {
        "kai.scheduler/batch-min-member": "2",
        "kai.scheduler/topology": "net",
        "kai.scheduler/topology-required-placement": "zone",
    }
    tell(core, kai_topology(), job("j", said, template))
    core.put(*of_job("j-0", "j", **template))
    assert bound(core.settle()) == {}
    core.put(*of_job("j-1", "j", **template))
    assert {name[0] for name in bound(core.settle()).values()} == {"a"}


def test_segments_of_a_job_are_in_one_rack_each():
    core = Core(*racks(a1=3, a2=2, b1=1))
    said = {"kai.scheduler/segment-size": "2", "kai.scheduler/segment-topology-required-placement": "rack"}
    template = {"annotations": {**said, "kai.scheduler/topology": "net"}}
    tell(core, kai_topology(), job("j", {"kai.scheduler/batch-min-member": "4"}, template))
    for n in range(4):
        index = {"batch.kubernetes.io/job-completion-index": str(n)}
        core.put(*of_job(f"j-{n}", "j", annotations={**template["annotations"], **index}))
    placed = bound(core.settle())
    assert placed["j-0"] == placed["j-1"]
    assert placed["j-2"] == placed["j-3"]


def segmented(core, number):
    said = {"kai.scheduler/segment-size": "2", "kai.scheduler/segment-topology-preferred-placement": "rack"}
    template = {"annotations": {**said, "kai.scheduler/topology": "net"}}
    tell(core, kai_topology(), job("j", {"kai.scheduler/batch-min-member": str(number)}, template))
    for n in range(number):
        index = {"batch.kubernetes.io/job-completion-index": str(n)}
        core.put(*of_job(f"j-{n}", "j", annotations={**template["annotations"], **index}))
    return bound(core.settle())


def test_segments_are_in_one_rack_each_where_they_prefer_it_and_can():
    placed = segmented(Core(*racks(a1=3, a2=3, b1=1)), 4)
    assert placed["j-0"] == placed["j-1"]
    assert placed["j-2"] == placed["j-3"]


def test_segments_that_only_prefer_one_rack_do_without():
    placed = segmented(Core(*racks(a1=3, a2=1)), 4)
    assert len(placed) == 4
    assert "a1" in placed["j-0"]
    assert placed["j-0"] == placed["j-1"]


def test_pods_of_a_job_that_says_nothing_are_placed_one_by_one():
    core = Core(*racks(a1=1))
    template = {"labels": {"kai.scheduler/queue": "team"}}
    core.put(*of_job("early", "j", **template), *of_job("plain", "other"))
    core.scheduler.state.groups.served.add("batch")
    tell(core, job("j", None, template))
    core.put(*of_job("j-0", "j", **template))
    assert len(bound(core.settle())) == 1


def test_claims_of_a_group_are_those_of_kubernetes_groups_only():
    core = Core(*racks(a1=2))
    tell(core, kai_group("g", minMember=2, resourceClaims=[{"name": "g-0", "resourceClaimName": "g-0"}, 7]))
    members(core, "g", 2)
    (action,) = core.actions()
    assert {write.consumer["resource"] for each in action.binds for write in each.writes} == {"pods"}
