"""What the builders make is what an API server accepts."""

import inspect

import pytest

from dray.client.interface import WriteOptions
from dray.testing import objects
from dray.testing.cluster import LocalCluster, in_place, kind_of

LABELS = {"app": "web"}
DEVICE = objects.device(
    "gpu-0",
    attributes={"model": "H100", "index": 0, "idle": True, "rails": [1, 2], "driver": {"version": "1.2.3"}},
    capacity={"memory": "80Gi", "slots": {"value": "4"}},
    taints=[objects.taint("k", value="v")],
)
PAIR = objects.request("pair", count=2, selectors=['device.attributes["gpu.example.com"].model == "H100"'])
EITHER = objects.first_available(
    "any", objects.subrequest("many", count=8), objects.subrequest("all", allocationMode="All")
)
MATCH = [{"matchAttribute": f"{objects.DRIVER}/model", "requests": ["pair"]}]

MADE = [
    objects.node("n", labels=LABELS, taints=[objects.taint("k", "NoExecute")], allocatable={"example.com/foo": "2"}),
    objects.resource_slice("s", DEVICE, "gpu-1", nodeName="n"),
    objects.resource_slice("all", "gpu-2", pool="other", generation=3, resourceSliceCount=2),
    objects.device_class("gpu", f'device.driver == "{objects.DRIVER}"', extendedResourceName="example.com/gpu"),
    objects.device_taint_rule("r", objects.taint("k"), deviceSelector={"driver": objects.DRIVER, "pool": "s"}),
    objects.claim("c"),
    objects.claim("pair", PAIR, EITHER, constraints=MATCH, labels=LABELS, namespace="default"),
    objects.claim_template("t", PAIR, metadata={"labels": LABELS}),
    objects.pod("p", claims=["c"], templates={"gpu": "t"}, requests={"cpu": "1"}, labels=LABELS, nodeSelector=LABELS),
    objects.pod("q", containers=[objects.container("a", limits={"cpu": "2"}), objects.container("b", image="nginx")]),
    objects.job("j"),
    objects.job("k", objects.pod("w", labels=LABELS, restartPolicy="OnFailure"), parallelism=3),
    objects.cron_job("n", "0 3 * * *"),
    objects.daemon_set("o"),
    objects.deployment("q", replicas=2),
    objects.replica_set("r", objects.pod("w", labels=LABELS), replicas=2),
    objects.replication_controller("s"),
    objects.stateful_set("t"),
    objects.pod_group("g"),
    objects.pod_group("gang", minCount=2),
    objects.composite_pod_group("tree"),
    objects.composite_pod_group("trees", minGroupCount=2),
    objects.pod_disruption_budget("b", LABELS, minAvailable=1),
    objects.priority_class("high", 1000, globalDefault=True),
    objects.namespace("team", labels=LABELS),
    objects.config_map("m", {"a": "1"}),
]


async def test_a_server_accepts_every_object_and_knows_all_its_fields():
    strict = WriteOptions(field_validation="Strict")
    async with LocalCluster() as cluster:
        for each in MADE:
            kind = kind_of(each["kind"], each["apiVersion"])
            await cluster.client.create(kind, in_place(each, kind), options=strict)


async def test_a_server_accepts_an_allocation():
    async with LocalCluster(
        objects=[objects.claim("c", finalizers=["resource.kubernetes.io/delete-protection"])]
    ) as cluster:
        pod = await cluster.create(objects.pod("p", claims=["c"], nodeName="n"))
        given = objects.allocation("gpu-0", pool="n", nodeName="n")
        status = {"allocation": given, "reservedFor": [objects.consumer(pod)]}
        claim = await cluster.patch("ResourceClaim", "c", {"status": status}, subresource="status")
        assert claim["status"]["allocation"]["nodeSelector"] == given["nodeSelector"]


def test_every_builder_is_asked():
    builders = {name for name, each in vars(objects).items() if inspect.isfunction(each) and not name.startswith("_")}
    parts = {
        "allocation",
        "attribute",
        "consumer",
        "container",
        "device",
        "first_available",
        "request",
        "subrequest",
        "taint",
    }
    kinds = {each["kind"] for each in MADE}
    assert len(builders - parts) == len(kinds)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("a", "string"), (1, "int"), (True, "bool"), (["a"], "strings"), ([1], "ints"), ([False], "bools")],
)
def test_attributes_have_the_type_of_their_value(value, expected):
    assert objects.attribute(value) == {expected: value}


def test_members_go_where_kubernetes_has_them():
    made = objects.pod("p", namespace="team", uid="u", nodeName="n", priority=None, status={"phase": "Running"})
    assert made["metadata"] == {"name": "p", "namespace": "team", "uid": "u"}
    assert made["spec"] == {"containers": [{"name": "main", "image": "busybox"}], "nodeName": "n"}
    assert made["status"] == {"phase": "Running"}


def test_the_container_uses_the_claims():
    spec = objects.pod("p", claims=["c"], templates={"gpu": "t"})["spec"]
    assert spec["resourceClaims"] == [
        {"name": "claim-0", "resourceClaimName": "c"},
        {"name": "gpu", "resourceClaimTemplateName": "t"},
    ]
    assert spec["containers"][0]["resources"] == {"claims": [{"name": "claim-0"}, {"name": "gpu"}]}
