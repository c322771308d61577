"""The path of somebody who opens the page for the first time: sign in, submit something, see it run, see why the next
one waits, and what would help."""

from __future__ import annotations

from pathlib import Path

from tests.web.browser import Browser, PageCluster, needs_browser
from tests.web.test_page_browser import shoot

pytestmark = needs_browser

EXAMPLES = Path(__file__).parents[2] / "examples"
MANIFEST = (EXAMPLES / "page/2-all-gpus-of-a-machine.yaml").read_text()
TEAMS = (EXAMPLES / "groups/queues.yaml").read_text().replace("name: sweep", "name: render")
MACHINES = 5
"""Machines with eight GPUs that the cluster has."""
_DROP = """
const [selector, name, text] = arguments;
const data = new DataTransfer();
data.items.add(new File([text], name, { type: "application/yaml" }));
const drop = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
document.querySelector(selector).dispatchEvent(drop);
"""


def submit(browser: Browser) -> None:
    browser.until(lambda: browser.run("return !document.querySelector('.editor button.primary').disabled"), "button")
    browser.find(".editor button.primary").click()
    browser.until_text("Submit this?")
    browser.find("dialog button.primary").click()
    browser.until(lambda: not browser.run("return document.querySelector('dialog')"), "end of the dialog")


def test_a_first_visit(browser: Browser, cluster: PageCluster) -> None:
    browser.size(1280, 800)
    cluster.sign_in(browser)
    browser.run("[...document.querySelectorAll('.menu a')].find((each) => each.innerText === 'Try').click()")
    browser.until_text("See what would happen")
    browser.run(_DROP, ".editor", "training.yaml", MANIFEST)
    browser.until_text("It fits now.")
    submit(browser)
    browser.until_text("Running", ".submitted")
    browser.until_text("gpu-0", ".submitted")
    assert "of=Pod%2Fdefault%2Ftraining" in browser.driver.current_url
    # The other machines are taken too; then the next pod waits, and the page says why.
    pod = MANIFEST.partition("---")[2]
    taken = "\n---\n".join(pod.replace("training", f"other-{number}") for number in range(1, MACHINES))
    cluster.dray("apply", "-f", "-", stdin=taken)
    browser.run(_DROP, ".editor", "next.yaml", MANIFEST.replace("name: training", "name: next"))
    browser.until_text("It would wait.")
    browser.until_text("May start: by", ".try-right")
    shoot(browser, "try")
    submit(browser)
    browser.until_text("Waits", ".submitted")
    browser.find(".submitted a").click()
    browser.until_text("needs 8, 0 available", ".details")
    browser.until_text("Each of these helps alone:", ".details")
    browser.until_text("when pods that run reach their time limit", ".details")
    assert browser.accessibility_problems() == []
    shoot(browser, "waiting")
    # Once a place is free it starts, and the open page shows that.
    cluster.dray("delete", "pod", "training")
    browser.until_text("It does not wait any more", ".details")
    assert browser.driver.current_url.endswith("/ui/waiting/pod/default/next")


def test_a_cluster_without_queues_offers_one_and_then_shows_who_is_next(browser: Browser, cluster: PageCluster) -> None:
    cluster.sign_in(browser, "/queues")
    browser.until_text("This cluster has no queues")
    browser.find("main .card a").click()
    browser.until_text("Queue with quota", ".filter")
    submit(browser)
    browser.until_text("sweep-", ".submitted")
    browser.open(f"{cluster.page}/queues/ClusterQueue/team-a")
    browser.until_text("Why not yet", ".queue")
    # Others make room, and two teams come that lend each other quota: the open page shows it.
    cluster.dray("delete", "pod", "next", *(f"other-{number}" for number in range(1, MACHINES)))
    cluster.dray("apply", "-f", "-", stdin=TEAMS)
    browser.until_text("6 of 4 used, 2 borrowed", ".queues")
    browser.until_text("2 lent", ".queues")
    browser.until_text("Waiting, in order", ".details")
    browser.until_text("team-b lends 2 gpu.nvidia.com", ".details")
    assert browser.accessibility_problems() == []
    shoot(browser, "queues")
