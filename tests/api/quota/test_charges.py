"""What objects take of a quota."""

from datetime import UTC, datetime

import pytest

from dray.api.quota import charges, names, scopes


def pod(requests=None, limits=None, **spec):
    resources = {member: given for member, given in (("requests", requests), ("limits", limits)) if given}
    return {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": resources}], **spec}}


@pytest.mark.parametrize(
    ("name", "resources"),
    [
        ("pods", ("pods",)),
        ("limits.memory", ("pods",)),
        ("requests.hugepages-2Mi", ("pods",)),
        ("count/jobs.batch", ("jobs.batch",)),
        ("services.nodeports", ("services",)),
        ("gpu.deviceclass.resource.k8s.io/devices", ("resourceclaims.resource.k8s.io",)),
        ("requests.example.com/gpu", ("pods", "resourceclaims.resource.k8s.io")),
        ("nonsense", ()),
    ],
)
def test_which_objects_a_name_counts(name, resources):
    assert names.counted(name) == resources


def test_init_containers_and_overhead():
    init = {"name": "i", "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "4"}}}
    one = pod({"cpu": "1"}, {"cpu": "2"}, initContainers=[init], overhead={"cpu": "250m", "memory": "1Mi"})
    found = charges.of_pod(one)
    written = {name: charges.text(name, amount) for name, amount in found.items()}
    assert written["requests.cpu"] == written["cpu"] == "3250m"
    assert written["limits.cpu"] == "4250m"
    assert written["requests.memory"] == "1Mi"
    assert "limits.memory" not in written, "overhead comes on top of a limit only"


def test_a_pod_past_its_grace_takes_nothing():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    leaving = {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    assert charges.is_over({"metadata": leaving, "spec": {}}, now)
    assert not charges.is_over({"metadata": {}, "spec": {}}, now)


def test_services_count_what_they_open():
    spec = {"type": "LoadBalancer", "ports": [{"port": 1}, {"port": 2, "nodePort": 30000}]}
    found = {name: amount // charges.UNIT for name, amount in charges.of_service({"spec": spec}).items()}
    assert found == {"count/services": 1, "services": 1, "services.loadbalancers": 1, "services.nodeports": 2}
    few = charges.of_service({"spec": {**spec, "allocateLoadBalancerNodePorts": False}})
    assert few["services.nodeports"] == charges.UNIT, "the one that is asked for"


def test_looking_at_other_namespaces_is_a_scope():
    quota = {"spec": {"scopes": ["CrossNamespacePodAffinity"]}}
    term = {"topologyKey": "zone", "namespaceSelector": {}}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert scopes.covers(quota, scopes.scoped(pod(affinity=rules)))
    assert not scopes.covers(quota, scopes.scoped(pod()))


def test_what_is_stated_for_the_pod_as_a_whole_decides_on_best_effort():
    assert scopes.scoped(pod()).is_best_effort
    assert not scopes.scoped(pod(resources={"requests": {"cpu": "1"}})).is_best_effort


class TestConstraints:
    def test_every_container_states_cpu_and_memory(self):
        two = pod({"cpu": "1"})
        two["spec"]["containers"].append({"name": "a", "resources": {}})
        asked = ["requests.cpu", "limits.memory", "requests.ephemeral-storage", "pods"]
        assert names.unstated(two, asked) == "limits.memory for: a,c; requests.cpu for: a"

    def test_or_the_pod_does_as_a_whole(self):
        assert names.unstated(pod(resources={"limits": {"cpu": "1"}}), ["limits.memory"]) == ""
