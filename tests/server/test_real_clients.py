"""Clients that nobody here wrote: the official one, and lightkube."""

import threading
import warnings

import pytest

from tests.server.api import claim, pod
from tests.server.process import listening

kubernetes = pytest.importorskip("kubernetes")
httpx = pytest.importorskip("httpx")
lightkube = pytest.importorskip("lightkube")


@pytest.fixture(scope="module")
def server():
    with listening() as running:
        yield running


@pytest.fixture
def official(server):
    configuration = kubernetes.client.Configuration()
    configuration.host = server.url
    with kubernetes.client.ApiClient(configuration) as client:
        yield client


class TestTheOfficialClient:
    def test_pods(self, official):
        core = kubernetes.client.CoreV1Api(official)
        made = core.create_namespaced_pod("default", pod("official"))
        assert made.status.phase == "Pending"
        core.patch_namespaced_pod("official", "default", {"metadata": {"labels": {"a": "b"}}})
        assert [p.metadata.name for p in core.list_namespaced_pod("default", label_selector="a=b").items] == [
            "official"
        ]
        core.delete_namespaced_pod("official", "default")
        with pytest.raises(kubernetes.client.ApiException) as refused:
            core.read_namespaced_pod("official", "default")
        assert refused.value.status == 404

    def test_claims_and_a_watch(self, official):
        claims = kubernetes.client.CustomObjectsApi(official)
        where = ("resource.k8s.io", "v1", "default", "resourceclaims")
        version = claims.list_namespaced_custom_object(*where)["metadata"]["resourceVersion"]
        claims.create_namespaced_custom_object(*where, claim("watched"))
        claims.patch_namespaced_custom_object(*where, "watched", {"metadata": {"labels": {"a": "b"}}})
        events = kubernetes.watch.Watch().stream(
            claims.list_namespaced_custom_object, *where, resource_version=version, timeout_seconds=2
        )
        seen = [(event["type"], event["object"]["metadata"]["name"]) for event in events]
        assert seen == [("ADDED", "watched"), ("MODIFIED", "watched")]


class TestLightkube:
    @pytest.fixture
    def client(self, server):
        from lightkube.config.kubeconfig import KubeConfig

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield lightkube.Client(config=KubeConfig.from_server(server.url))

    def test_pods(self, client):
        from lightkube.models.core_v1 import Container, PodSpec
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import Pod

        body = Pod(metadata=ObjectMeta(name="light"), spec=PodSpec(containers=[Container(name="a", image="x")]))
        assert client.create(body, namespace="default").status.phase == "Pending"
        client.patch(Pod, "light", {"metadata": {"labels": {"a": "b"}}}, namespace="default")
        assert [p.metadata.name for p in client.list(Pod, namespace="default", labels={"a": "b"})] == ["light"]

    def test_claims_and_a_watch(self, client):
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.models.resource_v1 import DeviceClaim, DeviceRequest, ExactDeviceRequest, ResourceClaimSpec
        from lightkube.resources.resource_v1 import ResourceClaim

        request = DeviceRequest(name="g", exactly=ExactDeviceRequest(deviceClassName="gpu"))
        spec = ResourceClaimSpec(devices=DeviceClaim(requests=[request]))
        seen = threading.Event()

        def follow():
            for _, item in client.watch(ResourceClaim, namespace="default"):
                if item.metadata.name == "light":
                    seen.set()
                    return

        watcher = threading.Thread(target=follow, daemon=True)
        watcher.start()
        client.create(ResourceClaim(metadata=ObjectMeta(name="light"), spec=spec), namespace="default")
        assert seen.wait(10)
        client.patch(ResourceClaim, "light", {"metadata": {"labels": {"a": "b"}}}, namespace="default")
        assert client.get(ResourceClaim, "light", namespace="default").metadata.labels == {"a": "b"}
