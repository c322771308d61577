"""Every kind that the scheduler reads or writes can be read and written with the roles that are shipped."""

import pytest

from dray.client.foreign_kinds import KUEUE, definitions
from dray.scheduling_loop import feed, volumes
from dray.scheduling_loop.kind_owners import WEBHOOKS
from dray.scheduling_loop.optional_kinds import KINDS, QUEUES
from dray.server.security.builtin_roles import cluster_roles
from tests.control_plane.test_roles import bound, manifests, working
from tests.gpus import pod
from tests.scheduling.test_queues import GPU, QUEUE, cluster_queue, flavor, local_queue, nominal
from tests.scheduling_loop.test_queue_feed import make

SHIPPED = next(role for role in manifests("scheduler") if role["kind"] == "ClusterRole")
BUILT_IN = next(role for role in cluster_roles() if role["metadata"]["name"] == "system:kube-scheduler")


def always_read():
    found = [value for value in vars(feed).values() if hasattr(value, "plural") and hasattr(value, "group")]
    return [*found, volumes.CLAIMS, volumes.PERSISTENT_VOLUMES, volumes.STORAGE_CLASSES, WEBHOOKS]


def kinds():
    names = {(kind.group, kind.plural) for kind in (*always_read(), *KINDS.values())}
    # If these are missing, the list is not derived from the code any more.
    assert ("", "pods") in names
    assert ("kueue.x-k8s.io", "clusterqueues") in names
    assert ("scheduling.run.ai", "queues") in names
    return sorted(names)


def allows(role, verb, group, resource):
    return any(
        verb in rule["verbs"] and group in rule.get("apiGroups", ()) and resource in rule.get("resources", ())
        for rule in role["rules"]
    )


@pytest.mark.parametrize("role", [SHIPPED, BUILT_IN], ids=["examples/deploy", "built-in"])
def test_all_kinds_may_be_listed_and_watched(role):
    missing = [
        f"{verb} {plural}.{group}"
        for group, plural in kinds()
        for verb in ("list", "watch")
        if not allows(role, verb, group, plural)
    ]
    assert missing == []


@pytest.mark.parametrize("role", [SHIPPED, BUILT_IN], ids=["examples/deploy", "built-in"])
def test_the_status_of_queues_may_be_written(role):
    written = [*QUEUES.values(), KINDS["LocalQueue"], KINDS["PodGroup.scheduling.run.ai"], KINDS["PodGroup"]]
    missing = [kind.plural for kind in written if not allows(role, "patch", kind.group, f"{kind.plural}/status")]
    assert missing == []


async def queued_pods(cluster):
    for document in (flavor(), cluster_queue("team", ("any", {GPU: nominal(1)})), local_queue("team", "team")):
        await make(cluster, document)
    for name in ("first", "second"):
        made = pod(name, templates=["t"])
        made["metadata"]["labels"] = {QUEUE: "team"}
        await cluster.create(made)


async def test_quota_is_enforced_with_the_shipped_rights():
    forbidden = []
    async with working(forbidden=forbidden, objects=definitions()) as (cluster, _):
        await queued_pods(cluster)

        async def waits():
            events = await cluster.list("Event")
            return [event for event in events if "ClusterQueue team" in event["message"]]

        await cluster.eventually(waits)
        assert [await bound(cluster, name)() for name in ("first", "second")].count("n") == 1

        async def counted():
            return (await cluster.client.get(KUEUE["ClusterQueue"], "team")).get("status")

        await cluster.eventually(counted)
    assert forbidden == []


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("clusterqueues", "clusterqueues.kueue.x-k8s.io"),
        ("queues", "queues.scheduling.run.ai"),
        ("computeclasses", "computeclasses.cloud.google.com"),
        ("validatingwebhookconfigurations", "validatingwebhookconfigurations.admissionregistration.k8s.io"),
    ],
)
async def test_a_kind_of_another_system_that_may_not_be_read_keeps_the_scheduler_from_leading(missing, named):
    async with working((missing, "list"), objects=definitions()) as (cluster, running):
        await queued_pods(cluster)
        scheduler, _ = running

        async def told():
            return [obstacle for obstacle in scheduler.obstacles() if obstacle.startswith(f"cannot list {named}: ")]

        await cluster.eventually(told)
        assert not scheduler.ready.is_set()
        assert not await bound(cluster, "first")()
