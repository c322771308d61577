"""The plugin in a whole control plane: `pytest test_colours.py`, with dray installed and nothing else running."""

from colours import FAVOURITE, FORBIDDEN, Colours

from dray.scheduling.scheduler import Options
from dray.testing.objects import node, pod


def waits(pod):
    return any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions", ()))


def test_pods_go_by_colours(dray_cluster):
    cluster = dray_cluster(
        node("a", labels={"colour": "red"}),
        node("b", labels={"colour": "blue"}, cpu="4"),
        pod("likes-red", annotations={FAVOURITE: "red"}),
        pod("avoids-red", annotations={FORBIDDEN: "red"}),
        pod("avoids-both", annotations={FORBIDDEN: "red,blue"}),
        scheduler=Options(plugins=(Colours(),)),
    )
    for name, place in {"likes-red": "a", "avoids-red": "b"}.items():
        assert cluster.wait_for("Pod", name, lambda pod: pod["spec"].get("nodeName"))["spec"]["nodeName"] == place
    (condition,) = cluster.wait_for("Pod", "avoids-both", waits)["status"]["conditions"]
    assert condition["message"] == "0/2 nodes are available: 1 node(s) were blue, 1 node(s) were red."
    cluster.apply(node("b", labels={"colour": "green"}))
    cluster.wait_for("Pod", "avoids-both", lambda pod: pod["spec"].get("nodeName") == "b")
