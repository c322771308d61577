"""Jobs for tests, and a stand-in for the kubelet: pods end as the test says."""

from datetime import UTC, datetime, timedelta

from dray.client.clock import timestamp
from dray.testing import objects
from dray.testing.cluster import LocalCluster, kind_of


class Clock:
    """Starts now, as the server's does, and stands still but for what makes the names of events differ."""

    def __init__(self):
        self.moment = datetime.now(UTC).replace(microsecond=0)

    def now(self):
        self.moment += timedelta(microseconds=1)
        return self.moment

    def advance(self, seconds):
        self.moment += timedelta(seconds=seconds)


def cluster(clock=None, **options):
    return LocalCluster(controllers=["job"], time=clock or Clock(), **options)


def job(name="work", *, restart="Never", labels=None, **spec):
    return objects.job(name, objects.pod(name, labels=labels, restartPolicy=restart), **spec)


async def pods(local, name="work"):
    """The Job's pods, in order of their names."""
    found = [pod for pod in await local.list("Pod") if pod["metadata"]["ownerReferences"][0]["name"] == name]
    return sorted(found, key=lambda pod: pod["metadata"]["name"])


async def running(local, number, name="work"):
    """Waits for so many pods that have neither ended nor are about to; gives them."""

    async def enough():
        found = [pod for pod in await pods(local, name) if is_running(pod)]
        return found if len(found) == number else []

    if not number:
        return await local.eventually(lambda: none_running(local, name))
    return await local.eventually(enough)


async def none_running(local, name="work"):
    return not any(is_running(pod) for pod in await pods(local, name))


def is_running(pod):
    return pod["status"]["phase"] not in ("Succeeded", "Failed") and "deletionTimestamp" not in pod["metadata"]


async def place(local, pod, phase="Running", ready=True):
    """On a node, so that deleting it takes its time."""
    name = pod["metadata"]["name"]
    if not pod["spec"].get("nodeName"):
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": "a"}}
        await local.client.create(kind_of("Pod"), binding, namespace="default", name=name, subresource="binding")
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    await local.patch("Pod", name, {"status": {"phase": phase, "conditions": [condition]}}, subresource="status")


async def end(local, pod, *, code=0, conditions=(), at=None):
    state = {"terminated": {"exitCode": code, "finishedAt": timestamp(at or local.time.now())}}
    container = {
        "name": "main",
        "image": "busybox",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": state,
    }
    failed = bool(code) or bool(conditions)
    status = {
        "phase": "Failed" if failed else "Succeeded",
        "containerStatuses": [container],
        "conditions": list(conditions),
    }
    await local.patch("Pod", pod["metadata"]["name"], {"status": status}, subresource="status")


async def nudge(local, name="work"):
    """Lets the controller look again, as a timer would after the time the test let pass."""
    await local.patch("Job", name, {"metadata": {"annotations": {"nudge": timestamp(local.time.now())}}})


def condition(job, kind):
    """The reason of a condition that is true."""
    for each in (job["status"] or {}).get("conditions") or ():
        if each["type"] == kind and each["status"] == "True":
            return each["reason"]
    return None


async def status(local, name="work", **wanted):
    """Waits for these members of the status; absent and None are the same. Gives the Job."""

    async def as_wanted():
        found = await local.get("Job", name)
        state = found.get("status") or {}
        return found if all(state.get(key) == value for key, value in wanted.items()) else None

    try:
        return await local.eventually(as_wanted, within=5)
    except AssertionError:
        raise AssertionError((await local.get("Job", name)).get("status")) from None


async def finished(local, kind, name="work"):
    async def is_finished():
        found = await local.get("Job", name)
        return found if condition({"status": found.get("status") or {}}, kind) else None

    return await local.eventually(is_finished, within=5)


async def reasons(local):
    await local.environment.events.written()
    return [event["reason"] for event in await local.list("Event")]
