"""A kubelet joins without anybody at a terminal: the calls that it makes, played against a running server.

Server and kubelet are on one machine here, and have one address, which is not loopback.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket

import aiohttp
import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from dray.cli.join_token import make_token
from dray.client.api import ApiClient
from dray.client.endpoint import Endpoint
from dray.client.http import HttpTransport
from dray.server.listening import own_address
from dray.server.security import certificates
from dray.server.security.authority import Authority
from dray.server.security.certificates import Credential
from dray.testing.cluster import kind_of
from tests.node.joining.lab import started

NODES, PODS, REQUESTS = kind_of("Node"), kind_of("Pod"), kind_of("CertificateSigningRequest", "certificates.k8s.io/v1")
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
HERE = own_address()
pytestmark = pytest.mark.skipif(HERE.startswith("127."), reason="this machine has no address but loopback")


def document(node, key, names=()):
    subject = certificates.subject(f"system:node:{node}", ["system:nodes"])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if names:
        builder = builder.add_extension(certificates.alternative_names(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


class Kubelet:
    """Keeps what a kubelet keeps: a kubeconfig to start with, then certificates, then the port it listens on."""

    def __init__(self, node, kubeconfig):
        self.node = node
        config = yaml.safe_load(kubeconfig)
        cluster = config["clusters"][0]["cluster"]
        self.server, self.authority = cluster["server"], base64.b64decode(cluster["certificate-authority-data"])
        self._token = config["users"][0]["user"]["token"]
        self.asked = []

    async def bootstrap(self):
        """Obtains a client certificate with the bootstrap token, and makes the client of the node."""
        async with ApiClient(HttpTransport(Endpoint(self.server, ca=self.authority, token=self._token))) as client:
            mine = await self._certificate(client, "kubernetes.io/kube-apiserver-client-kubelet", "client auth", ())
        endpoint = Endpoint(self.server, ca=self.authority, certificate=mine.certificate, key=mine.key)
        self.client = ApiClient(HttpTransport(endpoint))

    async def register(self, port):
        addresses = [{"type": "InternalIP", "address": HERE}, {"type": "Hostname", "address": self.node}]
        endpoints = {"kubeletEndpoint": {"Port": port}}
        await self.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node}})
        status = {"status": {"addresses": addresses, "daemonEndpoints": endpoints}}
        await self.client.patch(NODES, self.node, status, subresource="status")

    async def serving_certificate(self):
        names = (self.node, HERE)
        return await self._certificate(self.client, "kubernetes.io/kubelet-serving", "server auth", names)

    async def _certificate(self, client, signer, usage, names):
        key = certificates.new_key()
        spec = {
            "request": base64.b64encode(document(self.node, key, names)).decode(),
            "signerName": signer,
            "usages": ["digital signature", usage],
        }
        kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
        made = await client.create(REQUESTS, {**kind, "metadata": {"generateName": "csr-"}, "spec": spec})
        async with asyncio.timeout(60):
            while not (found := await client.get(REQUESTS, made["metadata"]["name"]))["status"].get("certificate"):
                failed = [
                    condition for condition in found["status"].get("conditions") or () if condition["type"] == "Failed"
                ]
                assert not failed, failed
                await asyncio.sleep(0.02)
        return Credential(base64.b64decode(found["status"]["certificate"]), certificates.encode_key(key))

    async def logs(self, request):
        """Serves logs as in authorization mode Webhook: asks the server whether the client has the right."""
        certificate = request.transport.get_extra_info("ssl_object").getpeercert()
        user = dict(pair for part in certificate["subject"] for pair in part)["commonName"]
        attributes = {"verb": "get", "resource": "nodes", "subresource": "proxy", "name": self.node, "version": "v1"}
        review = {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
        body = {**review, "spec": {"user": user, "resourceAttributes": attributes}}
        answer = await self.client.request("POST", REVIEWS, body=body)
        self.asked.append((user, answer["status"]["allowed"]))
        return web.Response(text="hello from the kubelet\n")

    @contextlib.asynccontextmanager
    async def listening(self, listener, credential):
        tls = certificates.node_context(self.authority, credential)
        application = web.Application()
        application.router.add_get("/containerLogs/default/p/c", self.logs)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.SockSite(runner, listener, ssl_context=tls).start()
        try:
            yield
        finally:
            await runner.cleanup()


async def log_of(lab):
    security = lab.server.context.security
    tls = certificates.client_context(lab.authority, security.authority.admin())
    url = f"{lab.url}/api/v1/namespaces/default/pods/p/log"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=tls) as answer:
        return answer.status, await answer.text()


async def run_pod(lab, node):
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "x"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    await lab.admin.create(PODS, pod, namespace="default")


@contextlib.asynccontextmanager
async def joined(node, **token):
    """A kubelet whose Node is registered, with a pod on it; it does not listen yet."""
    async with started(bind=HERE, names=()) as lab:
        kubelet = Kubelet(node, (await make_token(lab.admin, **token)).kubeconfig)
        with socket.create_server((HERE, 0)) as listener:
            await kubelet.bootstrap()
            await kubelet.register(listener.getsockname()[1])
            await run_pod(lab, node)
            yield lab, kubelet, listener
        await kubelet.client.close()


@pytest.mark.parametrize(
    ("node", "token"), [("worker", {}), (socket.gethostname().lower(), {"this_machine": True})], ids=["named", "host"]
)
async def test_a_kubelet_on_the_machine_of_the_server_joins_and_answers(node, token):
    async with joined(node, **token) as (lab, kubelet, listener):
        credential = await kubelet.serving_certificate()
        async with kubelet.listening(listener, credential):
            assert await log_of(lab) == (200, "hello from the kubelet\n")
        assert kubelet.asked == [("kube-apiserver-kubelet-client", True)]
        # With what it shows the server, nobody who trusts the cluster takes it for the server.
        issued = x509.load_pem_x509_certificate(credential.certificate)
        authority = x509.load_pem_x509_certificate(lab.authority)
        assert not certificates.is_issued_by(issued, authority)


async def test_a_certificate_that_the_kubelet_made_itself_is_refused_with_advice():
    async with joined("worker") as (lab, kubelet, listener):
        own = Authority.ephemeral().node_server("worker", [HERE])
        async with kubelet.listening(listener, own):
            code, text = await log_of(lab)
        assert code == 500
        assert "failed to verify certificate" in text
        assert "set serverTLSBootstrap: true in its configuration" in text
        assert kubelet.asked == []


async def test_addresses_that_are_not_in_the_status_of_the_node_wait_for_somebody():
    async with joined("worker") as (lab, kubelet, _):
        taken = {"status": {"addresses": [{"type": "InternalIP", "address": HERE}]}}
        await lab.admin.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "other"}})
        await lab.admin.patch(NODES, "other", taken, subresource="status")
        asking = asyncio.create_task(kubelet.serving_certificate())

        async def events():
            found = (await lab.admin.list(kind_of("Event")))["items"]
            return [event["message"] for event in found if event["reason"] == "AddressNotOfNode"]

        async with asyncio.timeout(60):
            while not (told := await events()):
                await asyncio.sleep(0.02)
        assert f"{HERE} is also an address of Node other" in told[0]
        await lab.admin.delete(NODES, "other")
        assert (await asking).certificate
