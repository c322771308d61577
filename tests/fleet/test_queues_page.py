"""What docs/queues.md shows of `dray queue` and `dray explain` is what they print."""

import re

from dray.client.foreign_kinds import definitions

from .rehearsed import EXAMPLES, rehearsing

PAGE = (EXAMPLES.parent / "docs" / "queues.md").read_text()


def steady(text):
    """Without generated names and ages."""
    named = re.sub(r"\bsweep-[a-z0-9]{5}\b", "sweep-*****", text)
    return re.sub(r"\b\d+s$", "*s", named, flags=re.MULTILINE)


SHOWN = steady(PAGE).splitlines()


def is_shown(output):
    """Whether the page has the lines below each other."""
    lines = steady(output).splitlines()
    assert lines
    return any(SHOWN[start : start + len(lines)] == lines for start in range(len(SHOWN)))


async def all_tried(here, number):
    async def tried():
        pods = [pod for pod in await here.pods() if not pod["spec"].get("nodeName")]
        return len(pods) == number and all((pod.get("status") or {}).get("conditions") for pod in pods)

    await here.cluster.eventually(tried)


async def test_queues_with_a_borrower(tmp_path):
    async with rehearsing(tmp_path, "p5.48xlarge=2", controllers=["job"], objects=definitions()) as here:
        await here.apply("groups/queues.yaml")
        await here.running(6)
        await all_tried(here, 2)
        for arguments in ((), ("team-a",)):
            printed = await here.dray("queue", *arguments)
            assert is_shown(printed), printed
        pending, _ = await here.refused()
        printed = await here.dray("explain", "pod", pending["metadata"]["name"])
        assert is_shown(printed), printed


async def test_queues_of_kai(tmp_path):
    async with rehearsing(tmp_path, "p5.48xlarge=1", controllers=["job"], objects=definitions()) as here:
        await here.apply("groups/kai-queues.yaml")
        await here.running(8)
        printed = await here.dray("queue")
        assert is_shown(printed), printed
