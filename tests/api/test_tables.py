"""Tables: the cells that `kubectl get` shows."""

import pytest

from dray.api import catalogue, tables
from dray.api.tables.column import human
from dray.testing import objects

from .objects import CLAIM, POD, POD_GROUP, POOL_REQUEST, RULE, SLICE, changed

NOW = "2026-01-02T00:00:00Z"
CREATED = {"metadata.creationTimestamp": "2026-01-01T23:00:00Z"}


def kind(document):
    return catalogue.find(document["apiVersion"], document["kind"]).entry


def shown(document, *, wide=False):
    entry = kind(document)
    columns = [column for column in tables.columns(entry) if wide or not column.wide]
    return {column.name: column.cell(document, NOW) for column in columns}


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "pending"),
        ({"status": {"allocation": {}}}, "allocated"),
        ({"status": {"allocation": {}, "reservedFor": [{}]}}, "allocated,reserved"),
        ({"metadata.deletionTimestamp": NOW}, "deleted"),
        ({"metadata.deletionTimestamp": NOW, "status": {"allocation": {}}}, "deleted,allocated"),
    ],
)
def test_claims(changes, state):
    assert shown(changed(CLAIM, {**CREATED, **changes})) == {"Name": "c", "State": state, "Age": "60m"}


def test_slices_and_rules():
    assert shown(changed(SLICE, CREATED)) == {
        "Name": "s",
        "Node": "n",
        "Driver": "d.example.com",
        "Pool": "p",
        "Age": "60m",
    }
    assert shown(changed(SLICE, {**CREATED, "spec.nodeName": None}))["Node"] == ""
    rule = changed(RULE, {**CREATED, "spec.taint.timeAdded": "2026-01-01T23:59:30Z"})
    assert shown(rule) == {
        "Name": "r",
        "Key": "k",
        "Value": "",
        "Effect": "NoSchedule",
        "TimeAdded": "30s",
        "Age": "60m",
    }


def test_pool_status_requests():
    assert list(shown(POOL_REQUEST).values()) == ["r", "d.example.com", "-", "-", "-", "-", "-", 0, "Pending", "<none>"]
    condition = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T23:59:00Z"}
    pools = [{"totalDevices": 8, "availableDevices": 3, "allocatedDevices": 5}, {"validationError": "x"}]
    answered = changed(POOL_REQUEST, {"status": {"poolCount": 3, "pools": pools, "conditions": [condition]}})
    cells = ["r", "d.example.com", "8", "3", "5", "0", "1", 3, "Complete (2/3 pools)", "60s"]
    assert list(shown(answered).values()) == cells


def test_pod_groups():
    assert shown(changed(POD_GROUP, CREATED)) == {
        "Name": "g",
        "Policy": "Gang",
        "Workload": "<none>",
        "Status": "Pending",
        "Age": "60m",
    }
    conditions = [
        {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"},
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
    ]
    assert shown(changed(POD_GROUP, {"status.conditions": conditions[:1]}))["Status"] == "Scheduled"
    assert shown(changed(POD_GROUP, {"status.conditions": conditions}))["Status"] == "PreemptionByScheduler"


def container(state, **rest):
    return {"containerStatuses": [{"name": "m", "state": state, **rest}]}


@pytest.mark.parametrize(
    ("status", "state", "ready"),
    [
        ({"phase": "Pending"}, "Pending", "0/1"),
        ({"phase": "Running", **container({"running": {}}, ready=True)}, "Running", "1/1"),
        ({"phase": "Pending", **container({"waiting": {"reason": "ImagePullBackOff"}})}, "ImagePullBackOff", "0/1"),
        ({"phase": "Failed", **container({"terminated": {"exitCode": 3}})}, "ExitCode:3", "0/1"),
        ({"phase": "Succeeded", **container({"terminated": {"reason": "Completed"}})}, "Completed", "0/1"),
        (
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            "SchedulingGated",
            "0/1",
        ),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted", "0/1"),
        (
            {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]},
            "Init:0/1",
            "0/1",
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}],
            },
            "Init:Error",
            "0/1",
        ),
    ],
)
def test_pods(status, state, ready):
    document = changed(POD, {"spec.initContainers": [{"name": "i"}], "status": status})
    assert (shown(document)["Status"], shown(document)["Ready"]) == (state, ready)


def test_a_pod_that_is_going_and_one_that_restarted():
    assert shown(changed(POD, {"metadata.deletionTimestamp": NOW}))["Status"] == "Terminating"
    last = {"terminated": {"finishedAt": "2026-01-01T23:58:00Z"}}
    status = container({"running": {}}, restartCount=4, lastState=last)
    assert shown(changed(POD, {"status": status}))["Restarts"] == "4 (2m ago)"
    assert shown(POD, wide=True)["Node"] == "<none>"


def test_nodes_jobs_and_events():
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/gpu": ""}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.37.0"}},
    }
    assert list(shown(node).values()) == ["n", "Ready,SchedulingDisabled", "gpu", "<unknown>", "v1.37.0"]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"completions": 3, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
        "status": {"succeeded": 1, "startTime": "2026-01-01T23:00:00Z"},
    }
    assert list(shown(job).values()) == ["j", "Running", "1/3", "60m", "<unknown>"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "lastTimestamp": "2026-01-01T23:59:50Z",
        "type": "Warning",
        "reason": "R",
        "message": "m\n",
    }
    assert list(shown(event).values()) == ["10s", "Warning", "R", "pod/p", "m"]


@pytest.mark.parametrize("entry", catalogue.KINDS, ids=lambda kind: kind.name)
def test_every_kind_has_columns(entry):
    names = [column.name for column in tables.columns(entry)]
    assert "Name" in names
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (47 * 3600, "47h"),
        (50 * 3600, "2d2h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
        (3650 * 86400, "10y"),
    ],
)
def test_durations(seconds, text):
    assert human(seconds) == text


def test_sets_and_cron_jobs():
    daemons = changed(objects.daemon_set("d"), {**CREATED, "status.numberReady": 2})
    assert list(shown(daemons).values()) == ["d", 0, 0, 2, 0, 0, "<none>", "60m"]
    assert list(shown(daemons, wide=True).values())[-3:] == ["main", "busybox", "app=d"]
    stateful = changed(objects.stateful_set("s", replicas=3), {**CREATED, "status.readyReplicas": 1})
    assert list(shown(stateful).values()) == ["s", "1/3", "60m"]
    cron_job = changed(objects.cron_job("c", "@daily"), CREATED)
    assert list(shown(cron_job).values()) == ["c", "@daily", "<none>", "False", 0, "<none>", "60m"]
    assert list(shown(cron_job, wide=True).values())[-3:] == ["main", "busybox", "<none>"]
    ran = changed(cron_job, {"status": {"active": [{}], "lastScheduleTime": "2026-01-01T23:59:00Z"}})
    assert list(shown(ran).values())[4:6] == [1, "60s"]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1", "controller": True}
    revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r"}, "revision": 2}
    revision = changed(revision, {**CREATED, "metadata.ownerReferences": [owner]})
    assert list(shown(revision).values()) == ["r", "daemonset.apps/d", 2, "60m"]
