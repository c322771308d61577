"""Endpoints and EndpointSlices of Services: what is decided, and that it is written."""

from dray.controllers.endpoints import mirrored, slices, subsets
from dray.controllers.endpoints.backends import backends
from dray.testing.cluster import LocalCluster
from dray.testing.objects import pod

CONTROLLERS = ["endpoints", "endpointslice", "garbage-collector"]


def service(name="web", **spec):
    ports = [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    spec = {"selector": {"app": name}, "ports": ports, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def running(number, *, port=8080, ready=True, phase="Running", deleting=False, address=""):
    metadata = {"name": f"p{number}", "namespace": "default", "uid": f"pod-{number}", "labels": {"app": "web"}}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    container = {"name": "main", "image": "x", "ports": [{"name": "http", "containerPort": port}]}
    status = {
        "phase": phase,
        "podIP": address or f"10.1.{number // 256}.{number % 256}",
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    return {"metadata": metadata, "spec": {"containers": [container], "nodeName": "n"}, "status": status}


def planned(pods, existing=(), zones=None, **spec):
    found = service(**spec)
    return slices.plan(found, backends(found, pods), list(existing), zones or {})


def of(pods, **spec):
    found = service(**spec)
    return subsets.desired(found, backends(found, pods), None).get("subsets", [])


def test_ready_pods_and_others_stand_apart():
    (subset,) = of([running(1), running(2, ready=False), running(3, deleting=True), running(4, phase="Failed")])
    assert [each["ip"] for each in subset["addresses"]] == ["10.1.0.1"]
    assert [each["ip"] for each in subset["notReadyAddresses"]] == ["10.1.0.2"]
    assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert subset["addresses"][0]["targetRef"]["name"] == "p1"


def test_those_that_are_not_ready_are_published_on_request():
    (subset,) = of([running(2, ready=False), running(3, deleting=True)], publishNotReadyAddresses=True)
    assert len(subset["addresses"]) == 2
    assert "notReadyAddresses" not in subset


def test_pods_with_other_ports_have_a_subset_of_their_own():
    assert len(of([running(1), running(2, port=9090)])) == 2


def test_a_pod_on_loopback_has_no_address_for_others():
    assert of([running(1, address="127.0.0.1")]) == []


def test_a_slice_tells_ready_serving_and_terminating():
    (made,) = planned([running(1), running(2, deleting=True), running(3, ready=False)], zones={"n": "z"}).create
    states = [tuple(each["conditions"].values()) for each in made["endpoints"]]
    assert states == [(True, True, False), (False, True, True), (False, False, False)]
    assert made["endpoints"][0]["zone"] == "z"
    assert made["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert made["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]


def test_a_slice_holds_a_hundred_and_endpoints_stay_where_they_are():
    pods = [running(number) for number in range(250)]
    made = planned(pods).create
    assert [len(each["endpoints"]) for each in made] == [100, 100, 50]
    assert len({each["metadata"]["name"] for each in made}) == 3
    same = planned(pods, made)
    assert (same.create, same.update, same.delete) == ([], [], [])
    fewer = planned(pods[1:], made)
    assert [len(each["endpoints"]) for each in fewer.update] == [99]
    more = planned([*pods, running(900)], made)
    assert (more.create, [len(each["endpoints"]) for each in more.update]) == ([], [51])


def test_a_service_without_pods_has_one_empty_slice():
    (made,) = planned([]).create
    assert (made["endpoints"], made["ports"]) == ([], [])
    emptied = planned([], planned([running(n) for n in range(150)]).create)
    assert (len(emptied.update), len(emptied.delete)) == (1, 1)


async def test_the_endpoints_of_a_service_follow_its_pods():
    async with LocalCluster(controllers=CONTROLLERS) as cluster:
        made = service(ports=[{"port": 80, "targetPort": 8080}])
        del made["metadata"]["uid"]
        await cluster.create(made)
        await cluster.create(pod("p", labels={"app": "web"}))
        status = {"phase": "Running", "podIP": "10.1.0.9", "conditions": [{"type": "Ready", "status": "True"}]}
        await cluster.patch("Pod", "p", {"status": status}, subresource="status")

        async def addresses():
            found = await cluster.get("Endpoints", "web")
            listed = await cluster.list("EndpointSlice")
            in_slices = [a for each in listed for endpoint in each["endpoints"] or [] for a in endpoint["addresses"]]
            in_endpoints = [a["ip"] for subset in (found or {}).get("subsets", []) for a in subset["addresses"]]
            return (in_endpoints, in_slices)

        async def are(expected):
            return await addresses() == (expected, expected)

        await cluster.eventually(lambda: are(["10.1.0.9"]))
        await cluster.delete("Pod", "p")
        await cluster.eventually(lambda: are([]))
        await cluster.delete("Service", "web")

        async def is_gone():
            return await cluster.get("Endpoints", "web") is None and not await cluster.list("EndpointSlice")

        await cluster.eventually(is_gone)


def written(subsets, **metadata):
    identity = {"name": "web", "namespace": "default", "uid": "uid-web", **metadata}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": identity, "subsets": subsets}


def test_mirrors_stand_apart_by_ports_and_family():
    ports = [{"name": "http", "port": 80}]
    hosts = {
        "addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
        "notReadyAddresses": [{"ip": "10.0.0.2"}],
        "ports": ports,
    }
    other = {"addresses": [{"ip": "10.0.0.3"}], "ports": [{"port": 81}]}
    annotations = {"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    endpoints = written([hosts, other], labels={"team": "x"}, annotations=annotations)
    made = mirrored.plan(endpoints, []).create
    told = [
        (each["addressType"], [(e["addresses"], e["conditions"]["ready"]) for e in each["endpoints"]]) for each in made
    ]
    assert told == [
        ("IPv4", [(["10.0.0.1"], True), (["10.0.0.2"], False)]),
        ("IPv6", [(["fd00::1"], True)]),
        ("IPv4", [(["10.0.0.3"], True)]),
    ]
    assert made[0]["metadata"]["labels"]["team"] == "x"
    assert made[0]["metadata"]["annotations"] == {"a": "b"}
    same = mirrored.plan(endpoints, made)
    assert (same.create, same.update, same.delete) == ([], [], [])
    fewer = mirrored.plan(written([other], labels={"team": "y"}), made)
    assert ([len(part) for part in (fewer.create, fewer.update, fewer.delete)]) == [0, 1, 2]


def test_a_mirror_holds_a_thousand_addresses_of_a_subset():
    subset = {"addresses": [{"ip": f"10.{n // 250}.{n % 250}.1"} for n in range(1200)], "ports": [{"port": 80}]}
    (made,) = mirrored.plan(written([subset]), []).create
    assert len(made["endpoints"]) == 1000


async def test_endpoints_of_a_service_without_selector_are_mirrored():
    async with LocalCluster(controllers=["endpointslicemirroring"]) as cluster:
        bare = service()
        del bare["spec"]["selector"], bare["metadata"]["uid"]
        await cluster.create(bare)
        endpoints = written([{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}])
        del endpoints["metadata"]["uid"]
        await cluster.create(endpoints)

        async def are(expected):
            listed = await cluster.list("EndpointSlice")
            return [each["endpoints"][0]["addresses"][0] for each in listed] == expected

        await cluster.eventually(lambda: are(["10.1.2.3"]))
        endpoints["subsets"][0]["addresses"] = [{"ip": "10.2.3.4"}]
        await cluster.patch("Endpoints", "web", {"subsets": endpoints["subsets"]})
        await cluster.eventually(lambda: are(["10.2.3.4"]))
        await cluster.delete("Endpoints", "web")
        await cluster.eventually(lambda: are([]))
