"""No input makes the server fail: hostile bodies, odd queries, and our own OpenAPI turned against us."""

import asyncio
import gzip
import json
import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from dray.api import catalogue
from dray.server.requests import Response
from tests.api.objects import BUDGET, JOB, POD, SERVICE
from tests.server.api import APPLY, CLAIMS, MERGE, STRATEGIC, serving

CORPORA = Path(__file__).parents[1] / "conformance"
JUNK = [
    None,
    True,
    0,
    -1,
    1.5,
    2**70,
    1e308,
    "",
    "x",
    "\x00",
    "ü" * 9,
    [],
    {},
    [[]],
    [None],
    {"": {}},
    "%",
    {"a": None},
]
RAW = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"{}{}",
    b"k8s\x00",
    b"k8s\x00\x0a\xff\xff\xff\xff\xff",
    b'{"metadata":{"name":"\\ud800"}}',
    b"1e999",
    b'{"spec":1e999}',
]
YAML = [
    b"- a: &x [*x]\n",
    b"a: !!python/object:os.system x",
    b"? [" * 5000,
    b"- " * 5000,
    b"[" * 100_000,
    b"a: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(
        b"%c: &%c [%s]\n" % (new, new, b",".join([b"*%c" % old] * 9))
        for old, new in zip(b"abcdefg", b"bcdefgh", strict=True)
    ),
]
QUERIES = """
    dryRun=All dryRun=x fieldValidation=Strict fieldValidation=Ignore fieldValidation=q fieldManager=m fieldManager=%00
    force=true limit=2 limit=-1 limit=x continue=abc labelSelector=a labelSelector=a%20in%20(b labelSelector=%21a
    labelSelector=,,, fieldSelector=metadata.name%3Da fieldSelector== resourceVersion=1 resourceVersion=x
    resourceVersionMatch=Exact timeoutSeconds=x gracePeriodSeconds=-5 gracePeriodSeconds=99999999999999
    propagationPolicy=Foreground propagationPolicy=zz includeObject=Object orphanDependents=true
""".split()
RULE = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2], "containerName": "m"}}
CONDITION = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
INDEXED = {
    "completionMode": "Indexed",
    "completions": 4,
    "backoffLimitPerIndex": 1,
    "maxFailedIndexes": 2,
    "podFailurePolicy": {"rules": [RULE, CONDITION]},
    "successPolicy": {"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 1}]},
}
# Kinds that the recorded questions leave out.
OTHERS = [
    ("/apis/batch/v1/namespaces/default/jobs", {**JOB, "spec": {**JOB["spec"], **INDEXED}}),
    ("/apis/policy/v1/namespaces/default/poddisruptionbudgets", BUDGET),
    ("/api/v1/namespaces/default/services", SERVICE),
    ("/api/v1/namespaces/default/pods", POD),
]
PATCHES = ["application/json-patch+json", MERGE, STRATEGIC, APPLY]


def documents():
    found = []
    for line in gzip.decompress((CORPORA / "api.jsonl.gz").read_bytes()).splitlines():
        case = json.loads(line)
        found.append((case["path"].partition("?")[0], case["body"]))
    return found[::9] + OTHERS * (len(found) // 90)


class Hostile:
    """Requests that are nearly right, in every way that chance comes up with."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.documents = documents()
        self.kinds = list(catalogue.every_version())

    def spoilt(self, value):
        if self.random.random() < 0.08:
            return self.random.choice(JUNK)
        if isinstance(value, dict):
            kept = {key: self.spoilt(item) for key, item in value.items() if self.random.random() > 0.04}
            if self.random.random() < 0.06:
                kept[self.random.choice(["x", "metadata", "spec", "status", "kind", "$patch", "rules"])] = (
                    self.random.choice(JUNK)
                )
            return kept
        return [self.spoilt(item) for item in value] if isinstance(value, list) else value

    def path(self):
        path, body = self.random.choice(self.documents)
        if self.random.random() < 0.5:
            kind = self.random.choice(self.kinds)
            path = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
            path += f"/namespaces/default/{kind.plural}" if kind.namespaced else f"/{kind.plural}"
            body = {**body, "kind": kind.kind, "apiVersion": kind.api_version}
        if self.random.random() < 0.5:
            path += "/" + self.random.choice(["live", "a", "x", "default"])
            if self.random.random() < 0.4:
                path += "/" + self.random.choice(["status", "binding", "eviction", "token", "scale", "log", "resize"])
        return path, body

    def request(self):
        path, body = self.path()
        method = self.random.choice(["GET", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "OPTIONS"])
        media = self.random.choice(PATCHES) if method == "PATCH" else "application/json"
        if self.random.random() < 0.05:
            body = self.random.choice(RAW)
        else:
            body = json.dumps(self.spoilt(body)).encode()
        if method == "DELETE" and self.random.random() < 0.7:
            body = b""
        query = "&".join(self.random.sample(QUERIES, self.random.randint(0, 2)))
        return method, f"{path}?{query}", body, media


@pytest.mark.parametrize("seed", range(3))
def test_nothing_chance_comes_up_with(seed):
    hostile = Hostile(seed)
    with serving() as api:
        api.create(CLAIMS, {"metadata": {"name": "live"}, "spec": {"devices": {"requests": []}}})
        for _ in range(700):
            method, path, body, media = hostile.request()
            answer = api.raw(method, path, body, content_type=media)
            assert isinstance(answer, Response)
            unexpected = answer.code >= 500 and answer.code not in (501, 504) and b"target." not in answer.body
            assert not unexpected, (method, path, body[:500], answer.body[:500])


WATCHES = """
    sendInitialEvents=true sendInitialEvents=x resourceVersion=99999999 resourceVersion=-1 timeoutSeconds=0
    timeoutSeconds=-1 allowWatchBookmarks=x resourceVersionMatch=NotOlderThan&sendInitialEvents=true
""".split()


@pytest.mark.parametrize("query", QUERIES + WATCHES)
def test_watches_with_odd_queries(api, query):
    answer = api.raw("GET", f"{CLAIMS}?watch=true&{query}")
    if isinstance(answer, Response):
        assert 400 <= answer.code < 500 or answer.code == 504
        return
    with suppress(TimeoutError, StopAsyncIteration):
        api.runner.run(asyncio.wait_for(anext(answer.chunks), 0.02))
    api.runner.run(answer.chunks.aclose())


@pytest.mark.parametrize("body", RAW, ids=range(len(RAW)))
@pytest.mark.parametrize("media", ["application/json", MERGE, "application/vnd.kubernetes.protobuf"])
def test_bodies_that_are_none(api, body, media):
    method, path = ("PATCH", f"{CLAIMS}/none") if media == MERGE else ("POST", CLAIMS)
    assert 400 <= api.raw(method, path, body, content_type=media).code < 500


@pytest.mark.parametrize("body", YAML, ids=range(len(YAML)))
def test_yaml_that_unfolds(api, body):
    began = time.process_time()
    assert api.raw("POST", CLAIMS, body, content_type="application/yaml").code == 400
    assert time.process_time() - began < 1


def test_our_own_description_turned_against_us():
    """Every operation of the document, with values of the right and the wrong types."""
    randomness = random.Random(7)
    with serving() as api:
        for place in ("api/v1", "apis/resource.k8s.io/v1"):
            document = api.get(f"/openapi/v3/{place}")
            for path, item in document["paths"].items():
                filled = path.replace("{namespace}", "default").replace("{name}", "thing")
                for method in set(item) - {"parameters"}:
                    body = json.dumps({"metadata": {"name": "thing"}, "spec": randomness.choice(JUNK)}).encode()
                    answer = api.raw(method.upper(), filled, body, content_type="application/json")
                    assert isinstance(answer, Response)
                    assert answer.code < 500 or answer.code == 501 or b"target." in answer.body, (method, path)
