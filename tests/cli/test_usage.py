"""`dray usage` of what the controller has stored."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from click.testing import Result

from dray.controllers.device_usage.totals import Consumer, Seconds, Totals
from tests.server.process import listening

Dray = Callable[..., Result]
HOUR = 3600
GPU = "gpu.nvidia.com"


def stored() -> str:
    """Ten days ago ann had a GPU for an hour; today ann and bob had GPUs, and bob waited for one."""
    totals, now = Totals(), int(time.time())
    ann, bob = Consumer("research", "ann", "team", GPU), Consumer("research", "bob", "", GPU)
    totals.add(ann, Seconds(1, 1, 1, 1), now - 240 * HOUR, now - 239 * HOUR)
    totals.add(ann, Seconds(2, 2, 2, 1), now - HOUR, now)
    totals.add(bob, Seconds(1, 0.5), now - HOUR, now)
    totals.add(bob._replace(device_class="dra.cpu"), Seconds(8, 8), now - HOUR, now)
    totals.until = now
    metadata = {"name": "dray-usage", "namespace": "kube-system"}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": totals.data()})


def test_hours_by_user_namespace_and_queue(run: Dray, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    where = ("--kubeconfig", str(kubeconfig))
    with listening(kubeconfig=kubeconfig):
        missing = run("usage", *where)
        assert missing.exit_code == 1
        assert "ConfigMap kube-system/dray-usage not found" in missing.output
        assert run("apply", "-f", "-", *where, stdin=stored()).exit_code == 0
        shown = run("usage", "--by", "user", "--class", GPU, *where).stdout.splitlines()
        assert [line.split() for line in shown] == [
            ["USER", "CLASS", "REQUESTED", "ALLOCATED", "USED", "MEASURED"],
            ["ann", GPU, "2.00", "2.00", "1.00", "100%"],
            ["bob", GPU, "1.00", "0.50", "-", "0%"],
        ]
        long_ago = json.loads(run("usage", "--by", "user", "--since", "30d", "-o", "json", *where).stdout)
        (ann,) = [each for each in long_ago if each["user"] == "ann"]
        hours = {"requestedHours": 3, "allocatedHours": 3, "measuredHours": 3, "usedHours": 2}
        assert ann == {"user": "ann", "class": GPU, **hours}
        by_queue = run("usage", "--by", "queue", "--class", GPU, *where).stdout.splitlines()
        assert [line.split()[0] for line in by_queue] == ["QUEUE", "team", "-"]
        picture = ElementTree.fromstring(run("usage", "--by", "user", "-o", "svg", *where).stdout)
        texts = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
        assert {f"ann {GPU}", "2.00 of 2.00 h", f"bob {GPU}", "0.50 of 1.00 h"} <= set(texts)
        by_namespace = json.loads(run("usage", "-o", "json", *where).stdout)
        assert [(each["namespace"], each["class"], each["allocatedHours"]) for each in by_namespace] == [
            ("research", "dra.cpu", 8),
            ("research", GPU, 2.5),
        ]


def test_a_time_that_cannot_be_read_is_refused(run: Dray) -> None:
    refused = run("usage", "--since", "yesterday")
    assert refused.exit_code == 2
    assert "'yesterday' is neither a duration like 7d or 36h nor a date like 2026-11-01" in refused.output
