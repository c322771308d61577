"""A join token, or the certificate of a node, does not make anybody the API server or another node."""

from __future__ import annotations

import asyncio
import base64
import shutil
import ssl
import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from dray.api.node_certificates import record
from dray.client.api import ApiClient
from dray.client.endpoint import Endpoint
from dray.client.errors import ApiError, NotFound
from dray.client.http import HttpTransport
from dray.node.joining import requests
from dray.server.inprocess import InProcessTransport
from dray.server.security import certificates
from dray.server.security.certificates import Credential
from dray.server.security.users import node_user
from dray.testing.cluster import kind_of
from tests.node.joining.lab import ADDRESS, started
from tests.server.test_certificate_requests import CLIENT, NODE_CLIENT, SERVING, pem, request

REQUESTS = requests.REQUESTS
NODES = kind_of("Node")
CONFIG_MAPS = kind_of("ConfigMap")
SERVES = ("digital signature", "server auth")
ODD_NAMES = (
    "*",
    "*.default.svc",
    "vm ",
    "vm#",
    "zz?x=vm",
    "x\0y",
    "localhost.",
    "Vm",
    "bücher",
    "a..b",
    "-a",
    "a/b",
    "a\n",
)
SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "anything.default.svc",
    "api.example.com",
    ADDRESS,
    "127.1",
    "2130706433",
    "0x7f000001",
)


@pytest.fixture
async def lab():
    async with started() as made:
        yield made


def as_node(lab, name):
    return ApiClient(InProcessTransport(lab.server.application, node_user(name)))


async def with_token(lab):
    return ApiClient(HttpTransport(Endpoint(lab.url, ca=lab.authority, token=await lab.token())))


async def until(condition):
    async with asyncio.timeout(60):
        while not (found := await condition()):
            await asyncio.sleep(0.02)
    return found


async def decided(client, name):
    """The request once it has a certificate or has failed."""

    async def condition():
        found = await client.get(REQUESTS, name)
        done = found["status"].get("certificate") or len(found["status"].get("conditions") or ()) > 1
        return found if done else None

    return await until(condition)


async def left_alone(lab, reason="NodeExists"):
    """Names of the requests that the approver did not approve for this reason."""
    events = (await lab.admin.list(kind_of("Event")))["items"]
    return {event["involvedObject"]["name"] for event in events if event["reason"] == reason}


async def is_left(lab, name, reason):
    return name in await left_alone(lab, reason)


async def others_seen(lab):
    """Returns when the approver has taken up every earlier request: it takes them in their order."""
    await as_node(lab, "marker").create(REQUESTS, request("marker", document=pem("system:node:marker")))
    await decided(lab.admin, "marker")


async def approved_by_hand(lab, name):
    found = await lab.admin.get(REQUESTS, name)
    conditions = [{"type": "Approved", "status": "True", "reason": "KubectlApprove"}]
    await lab.admin.update(REQUESTS, {**found, "status": {"conditions": conditions}}, subresource="approval")
    return await decided(lab.admin, name)


def asked(number, name, **options):
    return request(f"r{number}", document=pem(f"system:node:{name}", key=certificates.new_key()), **options)


async def test_odd_names_and_names_of_the_server_are_not_issued_to_a_token(lab):
    names = (*ODD_NAMES, *SERVER_NAMES)
    async with await with_token(lab) as client:
        for number, name in enumerate(names):
            await client.create(REQUESTS, asked(number, name))
    await others_seen(lab)
    for number, name in enumerate(names):
        if name in ODD_NAMES:
            assert not (await lab.admin.get(REQUESTS, f"r{number}"))["status"].get("conditions"), name
            await until(lambda: is_left(lab, f"r{number}", "NotSigned"))  # noqa: B023 - it is called at once
            # Not even somebody who approves everything lets such a name in.
            found, why = await approved_by_hand(lab, f"r{number}"), "must be a DNS subdomain"
        else:
            found, why = await decided(lab.admin, f"r{number}"), "is a name of the API server"
        assert why in found["status"]["conditions"][-1]["message"], name
        assert "certificate" not in found["status"], name


@pytest.mark.parametrize("odd", ["*.default.svc", "VM", "a b", ""])
async def test_a_user_with_an_odd_node_name_has_no_rights_of_a_node(lab, odd):
    client = as_node(lab, odd)
    with pytest.raises(ApiError) as caught:
        await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": odd or "n1"}})
    assert caught.value.status == 403


@pytest.mark.parametrize("odd", ["*.default.svc", "VM", "a b", "x\0y", "n."])
async def test_nobody_creates_a_node_with_an_odd_name(lab, odd):
    with pytest.raises(ApiError) as caught:
        await lab.admin.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": odd}})
    assert caught.value.status == 422


SERVING_NAMES = (
    ["n1", "*.default.svc"],
    ["n1", "API.example.com"],
    ["n1", "api.example.com."],
    ["n1", "kubernetes.default.svc"],
    ["*.example.com"],
    ["n1", "x\0y"],
    ["n1", "webhook.team.svc"],
    ["n1", "n2"],
    ["N2"],
    ["n1", "127.0.0.1"],
    ["n1", "::1"],
    ["n1", "::ffff:127.0.0.1"],
    ["n1", "0.0.0.0"],
)


def serving_pem(hosts, key):
    """Returns a signing request with unchanged host names; `alternative_names` would normalise them."""
    builder = x509.CertificateSigningRequestBuilder()
    builder = builder.subject_name(certificates.subject("system:node:n1", ["system:nodes"]))
    found = []
    for host in hosts:
        name = certificates.alternative_names([host])
        kind = next(iter(name))
        found.append(kind if isinstance(kind, x509.IPAddress) else x509.DNSName(host))
    builder = builder.add_extension(x509.SubjectAlternativeName(found), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


async def test_serving_certificates_name_neither_the_server_nor_other_nodes_nor_services_nor_wildcards(lab):
    key = certificates.new_key()
    client = as_node(lab, "n1")
    await lab.admin.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}})
    for number, hosts in enumerate(SERVING_NAMES):
        made = request(f"r{number}", signer=SERVING, document=serving_pem(hosts, key), usages=SERVES)
        await client.create(REQUESTS, made)
    await others_seen(lab)
    for number, hosts in enumerate(SERVING_NAMES):
        assert "certificate" not in (await lab.admin.get(REQUESTS, f"r{number}"))["status"], hosts
        found = await approved_by_hand(lab, f"r{number}")
        assert "certificate" not in found["status"], hosts


async def test_the_signer_of_users_does_not_make_nodes(lab):
    made = request("r0", signer=CLIENT, document=pem("system:node:n1"))
    await lab.admin.create(REQUESTS, made)
    found = await approved_by_hand(lab, "r0")
    assert f"signed by {NODE_CLIENT} only" in found["status"]["conditions"][-1]["message"]


async def test_a_name_is_given_to_one_of_many_machines_that_ask_at_once(lab):
    async with await with_token(lab) as client:
        await asyncio.gather(*(client.create(REQUESTS, asked(number, "later")) for number in range(8)))

    async def all_decided():
        found = [await lab.admin.get(REQUESTS, f"r{number}") for number in range(8)]
        left = {request["metadata"]["name"] for request in found if len(request["status"].get("conditions") or ()) < 2}
        issued = {request["metadata"]["name"] for request in found if request["status"].get("certificate")}
        return issued if left == issued | await left_alone(lab) else None

    assert len(await until(all_decided)) == 1


async def test_a_name_that_was_given_stays_given_without_its_request_and_after_a_restart(tmp_path):
    key = certificates.new_key()
    mine = pem("system:node:later", key=key)
    async with started(tmp_path / "data") as lab:
        async with await with_token(lab) as client:
            await client.create(REQUESTS, request("r0", document=mine))
            await decided(client, "r0")
        await lab.admin.delete(REQUESTS, "r0")
    async with started(tmp_path / "data") as lab, await with_token(lab) as client:
        await client.create(REQUESTS, asked(1, "later"))
        assert await until(lambda: left_alone(lab)) == {"r1"}
        other = (await client.get(REQUESTS, "r1"))["status"]
        assert not other.get("certificate")
        assert not other.get("conditions")
        # The machine that has the name may ask again: it was interrupted, for example.
        await client.create(REQUESTS, request("r2", document=mine))
        assert (await decided(client, "r2"))["status"].get("certificate")
        # Somebody who knows that the first machine is gone lets the other one in.
        assert (await approved_by_hand(lab, "r1"))["status"].get("certificate")


async def test_records_of_certificates_that_have_expired_are_deleted_at_the_start(tmp_path):
    gone, kept = ({"name": f"node-certificate.{name}", "namespace": "kube-system"} for name in ("gone", "kept"))
    async with started(tmp_path / "data") as lab:
        for name, expires in (("gone", "2020-01-01T00:00:00Z"), ("kept", "2999-01-01T00:00:00Z")):
            await lab.admin.create(CONFIG_MAPS, record(name, "k1", expires))
    async with started(tmp_path / "data") as lab:
        await until(lambda: is_gone(lab, gone))
        assert not await is_gone(lab, kept)


async def is_gone(lab, place):
    try:
        await lab.admin.get(CONFIG_MAPS, **place)
    except NotFound:
        return True
    return False


async def test_deleting_the_node_lets_another_machine_have_its_name(lab):
    place = {"name": "node-certificate.n1", "namespace": "kube-system"}
    async with await with_token(lab) as client:
        await client.create(REQUESTS, asked(0, "n1"))
        await decided(client, "r0")
        await as_node(lab, "n1").create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        assert (await lab.admin.get(CONFIG_MAPS, **place))["data"]["node"] == "n1"
        await lab.admin.delete(NODES, "n1")
        await until(lambda: is_gone(lab, place))
        await client.create(REQUESTS, asked(1, "n1"))
        assert (await decided(client, "r1"))["status"].get("certificate")


async def serving_credential(lab, addresses):
    """Returns the serving certificate of a node that reports these addresses."""
    client, key = as_node(lab, "n1"), certificates.new_key()
    status = {"addresses": [{"type": "InternalIP", "address": address} for address in addresses]}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": status}
    await client.create(NODES, node)
    document = pem("system:node:n1", hosts=["n1", *addresses], key=key)
    await client.create(REQUESTS, request("serving", signer=SERVING, document=document, usages=SERVES))
    found = await decided(client, "serving")
    return Credential(base64.b64decode(found["status"]["certificate"]), certificates.encode_key(key))


async def test_clients_do_not_take_a_node_for_the_server_even_at_the_address_of_the_server(lab, tmp_path):
    # A kubelet on the machine of the server has its address.
    credential = await serving_credential(lab, [ADDRESS])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates.load_credential(context, credential)
    heard = []

    async def listen(reader, writer):
        heard.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    trusting = certificates.client_context(lab.authority)
    for name in (ADDRESS, "n1"):
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", port, ssl=trusting, server_hostname=name)
    if kubectl := shutil.which("kubectl"):
        (tmp_path / "ca.crt").write_bytes(lab.authority)
        arguments = ("--server", f"https://127.0.0.1:{port}", "--tls-server-name", ADDRESS, "--token", "ADMIN")
        command = (kubectl, *arguments, "--certificate-authority", str(tmp_path / "ca.crt"), "get", "--raw", "/api")
        ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
        assert "certificate signed by unknown authority" in ended.stderr
    assert not any(heard)
    server.close()
