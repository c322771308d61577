"""The pictures of docs/page.md: `make screenshots` takes them anew from a busy fleet."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.web.browser import Browser, PageCluster, browsing, needs_browser, page_cluster

FOLDER = os.environ.get("DRAY_PICTURES", "")
pytestmark = [needs_browser, pytest.mark.skipif(not FOLDER, reason="`make screenshots` takes the pictures of the docs")]

RACK = "topology.kubernetes.io/rack"
FLEET = f"""
apiVersion: fleet.dray.dev/v1alpha1
kind: Fleet
machines:
- {{type: dgx-h100, count: 8, name: hopper-a, labels: {{{RACK}: rack-1}}}}
- {{type: dgx-h100, count: 8, name: hopper-b, labels: {{{RACK}: rack-2}}}}
- {{type: a3-highgpu-8g, count: 4, name: mig, gpus: mig, labels: {{{RACK}: rack-3}}}}
- {{type: p4d.24xlarge, count: 6, name: ampere, labels: {{{RACK}: rack-4}}}}
- {{type: g6.48xlarge, count: 6, name: l4, gpus: shared-memory, labels: {{{RACK}: rack-5}}}}
"""
JOB = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: {name}, namespace: {team}}}
spec: {{spec: {{devices: {{requests: [{{name: gpu, exactly: {{{request}}}}}]}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {team}}}
spec:
  containers: [{{name: main, image: busybox, resources: {{claims: [{{name: gpu}}]}}}}]
  resourceClaims: [{{name: gpu, resourceClaimTemplateName: {name}}}]
"""
TEAMS = {"vision": (9, 4), "language": (5, 8), "search": (10, 2), "robotics": (6, 1), "weather": (3, 4)}
"""How many jobs each team has, and how many GPUs each job."""
PROFILES = ("1g.10gb", "2g.20gb", "3g.40gb")


def selecting(attribute: str, value: str) -> str:
    return f"""selectors: [{{cel: {{expression: "device.attributes['gpu.nvidia.com'].{attribute} == '{value}'"}}}}]"""


def manifests() -> str:
    made = [f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {team}}}\n" for team in TEAMS]
    for team, (jobs, gpus) in TEAMS.items():
        request = f"deviceClassName: gpu.nvidia.com, count: {gpus}"
        made += [JOB.format(name=f"{team}-{number}", team=team, request=request) for number in range(jobs)]
    for number in range(9):
        part = f"deviceClassName: mig.nvidia.com, {selecting('profile', PROFILES[number % 3])}"
        made.append(JOB.format(name=f"notebook-{number}", team="vision", request=part))
        memory = f"capacity: {{requests: {{memory: {3 + number}Gi}}}}"
        share = f"deviceClassName: gpu.nvidia.com, {selecting('productName', 'NVIDIA L4')}, {memory}"
        made.append(JOB.format(name=f"index-{number}", team="search", request=share))
    return "---\n".join(made)


SELECTOR = 'device.attributes["gpu.nvidia.com"].productName.contains("H100")'
HISTORY_SECONDS = 120


def shoot_map(browser: Browser, cluster: PageCluster, path: str, name: str, level: int | None = None) -> None:
    browser.open(cluster.page + path)
    browser.until(lambda: browser.run("return document.querySelector('canvas')?.dataset.firstPicture"), "map")
    if level is not None:
        browser.run("document.querySelectorAll('.map-buttons button')[arguments[0]].click()", level)
    # Fonts, legend and the last tiles.
    time.sleep(1.5)
    browser.screenshot(Path(FOLDER) / name)


def shoot(browser: Browser, name: str) -> None:
    time.sleep(1)
    browser.screenshot(Path(FOLDER) / f"{name}.webp")


def shoot_maps(browser: Browser, cluster: PageCluster) -> None:
    browser.size(1280, 800)
    shoot_map(browser, cluster, "/cluster", "cluster.png")
    shoot_map(browser, cluster, "/cluster?node=mig-0", "devices.webp", level=2)
    browser.theme("dark")
    shoot_map(browser, cluster, "/cluster?colour=utilization&node=l4-0", "dark.webp")
    browser.size(360, 740)
    browser.theme("light")
    shoot_map(browser, cluster, "/cluster", "phone.webp")
    browser.size(1280, 900)


def shoot_devices(browser: Browser, cluster: PageCluster) -> None:
    browser.open(f"{cluster.page}/devices?class=gpu.nvidia.com&selector={quote(SELECTOR)}")
    browser.until_text("do not match")
    shoot(browser, "selector")
    claims = json.loads(cluster.dray("get", "resourceclaims", "--namespace", "vision", "-o", "json"))["items"]
    name = next(each["metadata"]["name"] for each in claims if each["metadata"]["name"].startswith("vision-0"))
    browser.open(f"{cluster.page}/devices/claims?q=vision&open=vision%2F{name}")
    browser.until_text("prepared no later than", ".timeline")
    shoot(browser, "claim")
    browser.open(f"{cluster.page}/devices?q=hopper-a-3+H100&open=gpu.nvidia.com%2Fhopper-a-3%2Fgpu-2")
    browser.until_text("Taint device…", ".details")
    browser.run(
        "[...document.querySelectorAll('.actions button')].find((e) => e.innerText === 'Taint device…').click()"
    )
    browser.until_text("Dry run:", "dialog")
    shoot(browser, "action")


def shoot_history(browser: Browser, cluster: PageCluster) -> None:
    """Jobs come and go for a while, so that there is something to see."""
    end, number = time.monotonic() + HISTORY_SECONDS, 0
    while time.monotonic() < end:
        gpus = str((8, 8, 2, 4, 8, 1)[number % 6])
        cluster.dray("run", "--gpu", gpus, "--detach", "--name", f"job-{number}", "--", "sleep", "600")
        if number % 3 == 2:
            cluster.dray("delete", "pod", f"job-{number - 1}", "--no-wait")
        number += 1
        time.sleep(10)
    browser.open(f"{cluster.page}/history")
    browser.until_text("Allocation", "main")
    shoot(browser, "history")


def test_pictures_of_the_documentation(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    with page_cluster(tmp_path, "--fleet", "fleet.yaml") as cluster, browsing() as browser:
        cluster.dray("apply", "-f", "-", stdin=manifests())
        cluster.sign_in(browser, "/cluster")
        shoot_maps(browser, cluster)
        shoot_devices(browser, cluster)
        shoot_history(browser, cluster)
