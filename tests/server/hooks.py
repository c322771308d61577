"""A server of webhooks over HTTPS, as tests run it beside the API server."""

import asyncio
import gzip
import ssl
from base64 import b64encode
from datetime import UTC, datetime, timedelta

import msgspec
from aiohttp import web

from dray.server.security import certificates

HANGS = object()
GROUP = "/apis/admissionregistration.k8s.io/v1"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


def make_authority():
    """(bundle, TLS context of the webhooks' server)"""
    now, key = datetime.now(UTC), certificates.new_key()
    root = certificates.make_authority(key, "hooks", now=now, lifetime=timedelta(days=1))
    hosts = certificates.alternative_names(["localhost", "127.0.0.1", "hook.default.svc"])
    name = certificates.subject("hook")
    leaf = certificates.issue(root, key, name, certificates.SERVER, now=now, lifetime=timedelta(hours=1), hosts=hosts)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates.load_credential(context, leaf)
    return b64encode(certificates.encode_certificate(root)).decode(), context


class HookServer:
    """`answers` is what each path answers with, made from the request of the review: a response, or bytes."""

    def __init__(self, api, authority, group="admission.k8s.io", kind="AdmissionReview"):
        self.api, (self.bundle, self.tls) = api, authority
        self.review = {"apiVersion": f"{group}/v1", "kind": kind}
        self.asked = []
        self.versions = []
        self.cookies = []
        self.answers = {}
        api.runner.run(self._start())

    async def _start(self):
        self.over = asyncio.Event()
        application = web.Application(client_max_size=2**24)
        application.router.add_post("/{name}", self._answer)
        self.runner = web.AppRunner(application)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        self.port = self.runner.addresses[0][1]

    async def _answer(self, request):
        review = msgspec.json.decode(await request.read())
        self.asked.append(review["request"])
        self.versions.append(review["apiVersion"])
        self.cookies.append(dict(request.cookies))
        answer = self.answers[request.match_info["name"]](review["request"])
        if answer is HANGS:
            await self.over.wait()
            answer = {}
        if isinstance(answer, bytes):
            return web.Response(body=answer)
        if isinstance(answer, web.Response):
            return answer
        response = {"uid": review["request"]["uid"], **answer}
        made = web.json_response({**self.review, "response": response})
        made.set_cookie("asked", "yes")
        return made

    async def until_asked(self, times=1):
        async with asyncio.timeout(60):
            while len(self.asked) < times:
                await asyncio.sleep(0.01)

    def client(self, name):
        """How the webhook of a name is reached."""
        return {"url": f"https://127.0.0.1:{self.port}/{name}", "caBundle": self.bundle}

    def close(self):
        self.over.set()
        self.api.runner.run(self.runner.cleanup())


class AdmissionHooks(HookServer):
    def add(self, kind, name, answer, **webhook):
        self.answers[name] = answer
        body = {
            "name": f"{name}.example.com",
            "clientConfig": self.client(name),
            "rules": [RULE],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **webhook,
        }
        self.api.create(f"{GROUP}/{kind}webhookconfigurations", {"metadata": {"name": name}, "webhooks": [body]})


def bomb(_request):
    """A small answer that is large when it is unpacked."""
    packed = gzip.compress(b" " * 50_000_000)
    return web.Response(body=packed, headers={"Content-Encoding": "gzip"})


def patch(*operations):
    """The answer that allows an object with these changes."""
    encoded = b64encode(msgspec.json.encode(list(operations))).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}
