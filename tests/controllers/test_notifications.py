"""Notifications of Jobs and pods: a real webhook and a real command, told once, with a few retries."""

import asyncio
import contextlib
import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from prometheus_client import CollectorRegistry

from dray.controllers.kinds import JOBS, PODS
from dray.controllers.notifications import delivery
from dray.controllers.notifications.controller import ANNOTATION, Notifications
from dray.controllers.notifications.options import NotificationOptions
from dray.testing import objects
from dray.testing.cluster import LocalCluster

NOW = "2026-11-18T03:30:00Z"


class Webhook:
    """Answers with these codes, one after the other; the last one again and again."""

    def __init__(self, *codes):
        self.got = []
        webhook, left = self, list(codes)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                webhook.got.append(json.loads(body))
                self.send_response(left.pop(0) if len(left) > 1 else left[0])
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/secret-token"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def webhook():
    made = []

    def make(*codes):
        made.append(Webhook(*codes))
        return made[-1]

    yield make
    for each in made:
        each.close()


@contextlib.asynccontextmanager
async def notifying(cluster, **options):
    """The controller; gives its metrics."""
    environment = replace(
        cluster.environment, notifications=NotificationOptions(**options), metrics=CollectorRegistry()
    )
    running = asyncio.create_task(Notifications(environment).run())
    try:
        yield environment.metrics
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def ended(cluster, name, code, **members):
    phase = "Failed" if code else "Succeeded"
    now = cluster.time.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    terminated = {"exitCode": code, "reason": "Error", "message": "password=x", "finishedAt": now, "startedAt": now}
    status = {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    spec = await cluster.create(objects.pod(name, nodeName="node-1", **members))
    status["name"] = spec["spec"]["containers"][0]["name"]
    status["state"] = {"terminated": terminated}
    await cluster.client.update_status(PODS, {**spec, "status": {"phase": phase, "containerStatuses": [status]}})


async def marked(cluster, kind, name, value):
    async def holds():
        found = await cluster.get(kind, name)
        return (found["metadata"].get("annotations") or {}).get(ANNOTATION) == value

    await cluster.eventually(holds)


async def test_the_webhook_is_told_once_of_a_pod_that_failed(webhook):
    hook = webhook(200)
    async with LocalCluster(objects=[objects.node("node-1")]) as cluster:
        async with notifying(cluster, url=hook.url) as metrics:
            await ended(cluster, "train", 3, annotations={"token": "s3cret"})
            await marked(cluster, "Pod", "train", "Failed")
            assert metrics.get_sample_value("dray_notifications_total", {"event": "Failed", "result": "sent"}) == 1
        # Another controller, after a restart.
        async with notifying(cluster, url=hook.url):
            await ended(cluster, "other", 0)
            await marked(cluster, "Pod", "other", "Succeeded")
    first, second = hook.got
    told = ("event", "kind", "namespace", "name", "reason", "node", "exitCode")
    assert [first[name] for name in told] == ["Failed", "Pod", "default", "train", "Error", "node-1", 3]
    assert (second["event"], second["name"], second["exitCode"]) == ("Succeeded", "other", 0)
    assert "password" not in json.dumps(hook.got)
    assert "s3cret" not in json.dumps(hook.got)


async def test_the_command_is_told_of_a_job(tmp_path):
    out = tmp_path / "told"
    command = ("/bin/sh", "-c", f"cat >> {out}")
    async with LocalCluster() as cluster, notifying(cluster, command=command):
        job = await cluster.create(objects.job("work", objects.pod("work", restartPolicy="Never")))
        now = cluster.time.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = [
            {"type": each, "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": now}
            for each in ("FailureTarget", "Failed")
        ]
        status = {"startTime": now, "conditions": conditions, "failed": 1}
        await cluster.client.update_status(JOBS, {**job, "status": status})
        await marked(cluster, "Job", "work", "Failed")
    told = json.loads(out.read_text())
    assert (told["event"], told["kind"], told["name"]) == ("Failed", "Job", "work")
    assert told["reason"] == "BackoffLimitExceeded"


async def test_a_pod_that_waits_too_long_is_told_with_the_reason(webhook):
    hook = webhook(200)
    async with LocalCluster() as cluster:
        pod = await cluster.create(objects.pod("later"))
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no GPU is free"}
        await cluster.client.update_status(PODS, {**pod, "status": {"phase": "Pending", "conditions": [condition]}})
        async with notifying(cluster, url=hook.url, waiting_seconds=0.001):
            await marked(cluster, "Pod", "later", "Waiting")
    (told,) = hook.got
    assert (told["event"], told["name"], told["reason"]) == ("Waiting", "later", "Unschedulable")
    assert told["message"] == "no GPU is free"


async def test_a_job_whose_pods_wait_is_told_once(webhook):
    hook = webhook(200)
    async with LocalCluster(controllers=["job"]) as cluster:
        template = objects.pod("work", restartPolicy="Never")
        await cluster.create(objects.job("work", template, parallelism=3, completions=3))

        async def made():
            return len(await cluster.list("Pod")) == 3

        await cluster.eventually(made)
        async with notifying(cluster, url=hook.url, waiting_seconds=0.001):
            await marked(cluster, "Job", "work", "Waiting")
    (told,) = hook.got
    assert (told["kind"], told["name"], told["event"]) == ("Job", "work", "Waiting")
    assert told["pod"].startswith("work-")


async def test_a_webhook_that_fails_is_tried_again_a_few_times(webhook, monkeypatch, caplog):
    monkeypatch.setattr(delivery, "_BACKOFF", replace(delivery._BACKOFF, first=0.01))
    good, bad = webhook(503, 429, 200), webhook(500)
    async with LocalCluster(objects=[objects.node("node-1")]) as cluster:
        async with notifying(cluster, url=good.url):
            await ended(cluster, "a", 0)
            await marked(cluster, "Pod", "a", "Succeeded")
        async with notifying(cluster, url=bad.url) as metrics:
            await ended(cluster, "b", 0)
            await marked(cluster, "Pod", "b", "Succeeded")
            labels = {"event": "Succeeded", "result": "failed"}
            assert metrics.get_sample_value("dray_notifications_total", labels) == 1
    assert (len(good.got), len(bad.got)) == (3, 5)
    assert "the webhook at 127.0.0.1 answered 500" in caplog.text
    assert "secret-token" not in caplog.text


@pytest.mark.parametrize("code", [302, 404])
async def test_redirects_and_refusals_are_final(webhook, code):
    hook = webhook(code)
    async with LocalCluster(objects=[objects.node("node-1")]) as cluster, notifying(cluster, url=hook.url):
        await ended(cluster, "a", 0)
        await marked(cluster, "Pod", "a", "Succeeded")
    assert len(hook.got) == 1


async def test_a_command_that_does_not_end_is_killed(monkeypatch, caplog):
    monkeypatch.setattr(delivery, "_COMMAND_SECONDS", 0.05)
    monkeypatch.setattr(delivery, "_ATTEMPTS", 1)
    async with LocalCluster(objects=[objects.node("node-1")]) as cluster, notifying(cluster, command=("sleep", "600")):
        await ended(cluster, "a", 0)
        await marked(cluster, "Pod", "a", "Succeeded")
    assert "the command sleep has not ended within 0.05 s" in caplog.text


def test_a_secret_url_does_not_show_in_the_options():
    assert "token" not in repr(NotificationOptions("https://chat.example.com/token"))
