"""`dray explain` of pods that lack quota: the cause, who has borrowed it, and what to do. There is no scheduler."""

from __future__ import annotations

import json

from tests.cli.queued import gang, pod, queue
from tests.cli.test_explain_live import Server


def test_a_gang_that_can_only_borrow_is_told_its_quota_and_who_borrowed_it(queue_server: Server) -> None:
    queue_server.apply(queue("nlp", 8, "{reclaimWithinCohort: Any}") + queue("vision", 6))
    queue_server.apply(pod("v", "vision", 8, running=True) + gang("train", "nlp", 4, 3))
    status, lines = queue_server.explain("podgroup", "train")
    cause = (
        "needs 12 cpu, 6 left: more than the quota of 8 of ClusterQueue nlp, can only borrow;"
        " vision has borrowed 2 of the 8; nobody is evicted for pods that exceed the quota: wait until pods of vision"
        " end, ask for 8 at most, or raise the quota"
    )
    assert (status, lines[0]) == (1, f"group default/train: waits: {cause}")
    assert lines[2] == f"├─ queue: {cause}"


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}}
"""


def test_a_job_tells_the_reason_of_its_gang_once(queue_server: Server) -> None:
    queue_server.apply(queue("nlp", 1) + gang("train", "nlp", 3))
    queue_server.apply(JOB)
    job = json.loads("\n".join(queue_server.printed("get", "job", "train", "-o", "json")))
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    for number in range(3):
        queue_server.patch("Pod", f"train-{number}", {"metadata": {"ownerReferences": [owner]}})
    status, lines = queue_server.explain("job", "train")
    assert status == 1
    assert lines[0].startswith(
        "job default/train: 0 of 3 pods run or have succeeded: pod default/train-0: cannot be placed"
    )
    assert lines[-1] == "└─ the same: pod train-1, train-2"


def test_quota_that_is_lent_and_that_the_queue_does_not_reclaim(queue_server: Server) -> None:
    queue_server.apply(
        queue("nlp", 8) + queue("vision", 6) + pod("v", "vision", 8, running=True) + pod("wants", "nlp", 7)
    )
    status, lines = queue_server.explain("pod", "wants")
    assert (status, lines) == (
        1,
        [
            "pod default/wants: cannot be placed: needs 7 cpu of the quota of 8 of ClusterQueue nlp, 6 left;"
            " vision has borrowed 2 of the 8; nobody is evicted, because reclaimWithinCohort is Never:"
            " set it to Any, or wait until pods of vision end"
        ],
    )


def test_borrowers_of_the_same_priority_stay_if_only_lower_ones_may_be_evicted(queue_server: Server) -> None:
    queue_server.apply(queue("nlp", 8, "{reclaimWithinCohort: LowerPriority}") + queue("vision", 6) + queue("audio", 0))
    queue_server.apply(
        pod("v", "vision", 8, running=True) + pod("a", "audio", 1, running=True) + pod("wants", "nlp", 7)
    )
    _, lines = queue_server.explain("pod", "wants")
    assert "5 left; 3 of the 8 are lent: vision has borrowed 2, audio has borrowed 1; nobody is evicted" in lines[0]
    assert "reclaimWithinCohort is LowerPriority, and no borrower has a lower priority: set it to Any" in lines[0]


def test_a_queue_whose_own_pods_use_the_quota(queue_server: Server) -> None:
    queue_server.apply(queue("nlp", 2) + pod("first", "nlp", 2, running=True) + pod("second", "nlp"))
    _, lines = queue_server.explain("pod", "second")
    assert lines == [
        "pod default/second: cannot be placed: quota of ClusterQueue nlp is used up: needs 1 cpu, 0 left, borrowing"
        " included; its pods use 2 of its quota of 2; nobody is evicted for pods that exceed the quota: wait until"
        " pods of the queue end, or raise the quota"
    ]


def test_a_queue_at_its_borrowing_limit(queue_server: Server) -> None:
    limited = queue("nlp", 2).replace("nominalQuota: 2", "nominalQuota: 2, borrowingLimit: 1")
    queue_server.apply(limited + queue("vision", 6) + pod("first", "nlp", 3, running=True) + pod("second", "nlp"))
    _, lines = queue_server.explain("pod", "second")
    assert "; its pods use 3 of its quota of 2; it may borrow 1 at most (borrowingLimit); nobody is evicted" in lines[0]


def test_more_than_could_ever_be_lent_can_never_fit(queue_server: Server) -> None:
    queue_server.apply(queue("nlp", 1) + queue("vision", 1) + gang("train", "nlp", 3))
    _, lines = queue_server.explain("podgroup", "train")
    assert lines[0] == (
        "group default/train: waits: can never fit: ClusterQueue nlp has 2 cpu at most, borrowing included, and 3"
        " are needed; raise the quota, or ask for less; its own quota is 1"
    )


KAI = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: %s}
spec:
  %s
  resources: {gpu: {quota: 0, limit: -1}, cpu: {quota: %s, limit: -1}, memory: {quota: -1, limit: -1}}
---
"""


def test_a_gang_beyond_the_fair_share_of_its_queue_is_told_why_nobody_is_evicted(queue_server: Server) -> None:
    parent = "parentQueue: dept"
    queue_server.apply(KAI % ("dept", "", 64000) + KAI % ("one", parent, 32000) + KAI % ("two", parent, 32000))
    pods = pod("running", "two", 40, running=True) + gang("train", "one", 3, 12)
    queue_server.apply(pods.replace("kueue.x-k8s.io/queue-name", "kai.scheduler/queue"))
    status, lines = queue_server.explain("podgroup", "train")
    assert status == 1
    assert lines[0].startswith("group default/train: waits: 3 pods have to be placed together, but only 2 fit")
    assert lines[0].endswith(
        "; Queue one evicts no pods of other queues: with 36 more it would have 36 cpu, above its fair share of 32;"
        " two is 8 above its quota"
    )
