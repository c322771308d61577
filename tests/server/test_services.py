"""Services: addresses and node ports are given, refused, kept and given back."""

import asyncio

import pytest

from dray.server import kubernetes_service
from tests.server.api import serving

SERVICES = "/api/v1/namespaces/default/services"


def service(name, **spec):
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def test_each_gets_an_address_of_the_range_and_gives_it_back(api):
    first, second = (api.create(SERVICES, service(name))["spec"] for name in ("a", "b"))
    assert first["clusterIP"].startswith("10.96.")
    assert first["clusterIPs"] == [first["clusterIP"]] != second["clusterIPs"]
    assert (first["ipFamilies"], first["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    taken = api.ask("POST", SERVICES, service("c", clusterIP=first["clusterIP"]))[1]
    assert "provided IP is already allocated" in taken["message"]
    api.delete(f"{SERVICES}/a")
    assert api.create(SERVICES, service("c", clusterIP=first["clusterIP"]))["spec"]["clusterIP"] == first["clusterIP"]


@pytest.mark.parametrize("address", ["192.0.2.1", "fd00::1", "10.96.0.0", "10.96.255.255"])
def test_an_address_outside_the_range_is_refused(api, address):
    assert api.refusal("POST", SERVICES, service("a", clusterIP=address)) == (422, "Invalid", ["spec.clusterIPs"])


def test_text_that_is_no_address_is_refused(api):
    assert api.refusal("POST", SERVICES, service("a", clusterIP="ten")) == (422, "Invalid", ["spec.clusterIP"])


def test_headless_and_external_services_have_none(api):
    headless = api.create(SERVICES, service("h", clusterIP="None", selector={"a": "b"}))["spec"]
    assert (headless["clusterIPs"], headless["ipFamilies"]) == (["None"], ["IPv4"])
    assert api.warnings == []
    outside = api.create(SERVICES, service("e", type="ExternalName", externalName="example.com"))["spec"]
    assert "clusterIP" not in outside
    assert api.warnings == []
    api.create(SERVICES, service("a"))
    assert "nothing routes" in api.warnings[0]


def test_an_update_that_does_not_mention_them_keeps_address_and_ports(api):
    made = api.create(SERVICES, service("a", type="NodePort"))["spec"]
    port = made["ports"][0]["nodePort"]
    assert 30000 <= port <= 32767
    kept = api.put(f"{SERVICES}/a", service("a", type="NodePort", selector={"x": "y"}))["spec"]
    assert (kept["clusterIP"], kept["ports"][0]["nodePort"]) == (made["clusterIP"], port)
    plain = api.patch(f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}})["spec"]
    assert "nodePort" not in plain["ports"][0]
    outside = api.patch(f"{SERVICES}/a", {"spec": {"type": "ExternalName", "externalName": "example.com"}})["spec"]
    assert "clusterIP" not in outside


def test_a_node_port_belongs_to_one(api):
    wanted = {"port": 80, "nodePort": 30080}
    api.create(SERVICES, service("a", type="NodePort", ports=[wanted]))
    taken = api.refusal("POST", SERVICES, service("b", type="NodePort", ports=[wanted]))
    assert taken == (422, "Invalid", ["spec.ports[0].nodePort"])
    far = service("b", type="NodePort", ports=[{"port": 80, "nodePort": 80}])
    assert api.refusal("POST", SERVICES, far)[2] == ["spec.ports[0].nodePort"]
    api.create(SERVICES, service("b", type="NodePort", ports=[{**wanted, "protocol": "UDP"}]))


def test_a_range_can_be_full():
    with serving(service_range="10.0.0.0/29") as api:
        for number in range(6):
            api.create(SERVICES, service(f"s{number}"))
        assert api.ask("POST", SERVICES, service("one-more"))[0] in (422, 500)


def test_the_service_of_the_server_itself(api):
    publish = kubernetes_service.publish
    api.runner.run(publish(api.context, "192.0.2.7", 6443))
    api.runner.run(publish(api.context, "192.0.2.8", 6443))
    assert api.get(f"{SERVICES}/kubernetes")["spec"]["clusterIP"] == "10.96.0.1"
    endpoints = api.get("/api/v1/namespaces/default/endpoints/kubernetes")
    assert endpoints["subsets"][0]["addresses"] == [{"ip": "192.0.2.8"}]
    found = api.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")
    assert found["endpoints"][0]["addresses"] == ["192.0.2.8"]


RANGES = "/apis/networking.k8s.io/v1/servicecidrs"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"


def settled(api):
    """Housekeeping has its turn."""
    for _ in range(20):
        api.runner.run(asyncio.sleep(0))


def test_the_range_of_the_server_is_an_object_that_is_ready(api):
    found = api.get(f"{RANGES}/kubernetes")
    assert found["spec"]["cidrs"] == [api.context.service_range]
    assert [(each["type"], each["status"]) for each in found["status"]["conditions"]] == [("Ready", "True")]
    assert found["status"]["conditions"][0]["message"] == "Kubernetes default Service CIDR is ready"


def test_an_address_is_an_object_for_as_long_as_its_service_has_it(api):
    address = api.create(SERVICES, service("web"))["spec"]["clusterIP"]
    settled(api)
    found = api.get(f"{ADDRESSES}/{address}")
    assert found["spec"]["parentRef"] == {"resource": "services", "namespace": "default", "name": "web"}
    assert found["metadata"]["labels"]["ipaddress.kubernetes.io/managed-by"] == "ipallocator.k8s.io"
    api.delete(f"{ADDRESSES}/{address}")
    settled(api)
    assert api.get(f"{ADDRESSES}/{address}")["metadata"]["uid"] != found["metadata"]["uid"]
    api.delete(f"{SERVICES}/web")
    settled(api)
    assert api.ask("GET", f"{ADDRESSES}/{address}")[0] == 404


def test_an_address_of_somebody_else_is_taken(api):
    parent = {"group": "example.com", "resource": "things", "name": "x"}
    api.create(ADDRESSES, {"metadata": {"name": "10.96.7.7"}, "spec": {"parentRef": parent}})
    code, answer = api.ask("POST", SERVICES, service("web", clusterIP="10.96.7.7"))
    assert code == 422
    assert "provided IP is already allocated" in answer["message"]


def test_addresses_come_from_a_further_range_which_stays_while_they_are_used(api):
    made = api.create(RANGES, {"metadata": {"name": "more"}, "spec": {"cidrs": ["203.0.113.0/24"]}})
    assert made["status"]["conditions"][0]["status"] == "True"
    api.create(SERVICES, service("web", clusterIP="203.0.113.10"))
    settled(api)
    api.delete(f"{RANGES}/more")
    settled(api)
    condition = api.get(f"{RANGES}/more")["status"]["conditions"][0]
    assert (condition["status"], condition["reason"]) == ("False", "Terminating")
    assert api.ask("POST", SERVICES, service("other", clusterIP="203.0.113.11"))[0] == 422
    api.delete(f"{SERVICES}/web")
    settled(api)
    assert api.ask("GET", f"{RANGES}/more")[0] == 404


def test_the_range_of_the_server_comes_back(api):
    api.delete(f"{RANGES}/kubernetes")
    settled(api)
    found = api.get(f"{RANGES}/kubernetes")
    assert "deletionTimestamp" not in found["metadata"]
