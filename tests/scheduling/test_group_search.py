"""Small gangs of all sorts against a search that tries everything: a placement that exists is found, never a part."""

import os
from itertools import combinations
from random import Random

import pytest

from dray.scheduling.placement.packing import Place, spread_over
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound
from tests.scheduling.test_group_attempts import EITHER, gang, member, whole_or_halves
from tests.scheduling_loop.checker import Checker

CASES = int(os.environ.get("DRAY_GANG_CASES", "1100"))
FIRST = int(os.environ.get("DRAY_GANG_SEED", "1"))
ROOT = f"{objects.DRIVER}/root"
NET = objects.request("net", deviceClassName="net")
KINDS = {
    "nothing": [],
    "one": [objects.request()],
    "pair": [objects.request(count=2)],
    "either": [EITHER],
    "half": [objects.request(deviceClassName="half")],
    "net": [NET],
    "both": [objects.request(), NET],
}
PORT = {"ports": [{"containerPort": 80, "hostPort": 8080}]}


class Case:
    """Nodes with cpu, GPUs and parts of one, a network pool that reaches some of them, and a gang."""

    def __init__(self, seed):
        chance = Random(seed)
        self.nodes = [f"n{n}" for n in range(chance.randint(1, 3))]
        self.cpu = {name: chance.randint(1, 3) for name in self.nodes}
        self.gpus = {name: chance.randint(0, 4) for name in self.nodes}
        self.boards = {name for name in self.nodes if chance.random() < 0.5}
        self.pools = [
            [name for name in self.nodes if chance.random() < 0.7] for _ in range(chance.choice((0, 1, 1, 2)))
        ]
        kinds = chance.choices(list(KINDS), k=chance.choice((1, 1, 2)))
        self.pods = sorted(chance.choice(kinds) for _ in range(chance.randint(2, 4)))
        self.need = max(2, len(self.pods) - chance.choice((0, 0, 0, 1)))
        self.apart = chance.random() < 0.3
        self.shared = chance.random() < 0.25 and any(self.pools)

    def slices_published(self):
        for name in self.nodes:
            yield gpus.slice_of(name, self.gpus[name])
            if name in self.boards:
                yield from whole_or_halves(name)
        for number, reached in enumerate(self.pools):
            terms = [{"matchExpressions": [{"key": "host", "operator": "In", "values": reached or ["none"]}]}]
            device = gpus.gpu(f"net-{number}", kind="net")
            yield objects.resource_slice(f"pool-{number}", device, nodeSelector={"nodeSelectorTerms": terms})

    def core(self):
        nodes = [objects.node(name, cpu=str(self.cpu[name]), labels={"host": name}) for name in self.nodes]
        core = Core(*nodes, *self.slices_published(), gpus.device_class("whole"), gpus.device_class("half"))
        core.put(gang("g", self.need), objects.claim("shared", objects.request(deviceClassName="net")))
        for number, kind in enumerate(self.pods):
            claims = ["shared"] if self.shared else []
            if KINDS[kind]:
                same = [{"requests": ["gpu"], "matchAttribute": ROOT}] if kind == "pair" else None
                core.put(objects.claim(f"p{number}", *KINDS[kind], constraints=same))
                claims.append(f"p{number}")
            core.put(member(f"p{number}", claims=claims, cpu="1", container=PORT if self.apart else None))
        return core

    # Trying everything

    def exists(self):
        options = [frozenset()]
        if self.shared:
            options = [frozenset({("net", number)}) for number in range(len(self.pools))]
        return any(self._some(chosen, option) for option in options for chosen in combinations(self.pods, self.need))

    def _some(self, pods, shared):
        reached = [self.pools[number] for _, number in shared]
        allowed = [name for name in self.nodes if all(name in each for each in reached)]
        return self._place(pods, allowed, dict.fromkeys(self.nodes, 0), shared)

    def _place(self, pods, allowed, taken, used):
        if not pods:
            return True
        for name in allowed:
            if taken[name] >= (1 if self.apart else self.cpu[name]):
                continue
            for devices in self._ways(pods[0], name, used):
                if self._place(pods[1:], allowed, {**taken, name: taken[name] + 1}, used | devices):
                    return True
        return False

    def _ways(self, kind, name, used):
        """Sets of devices that the pod could get there."""
        free = [("gpu", name, n) for n in range(self.gpus[name]) if ("gpu", name, n) not in used]
        nets = [("net", n) for n, reached in enumerate(self.pools) if name in reached and ("net", n) not in used]
        halves = [("half", name, n) for n in range(2) if name in self.boards and ("half", name, n) not in used]
        whole = [frozenset(halves)] if len(halves) == 2 else []
        return {
            "nothing": [frozenset()],
            "one": [frozenset({each}) for each in free],
            "pair": [frozenset(two) for two in combinations(free, 2) if two[0][2] // 2 == two[1][2] // 2],
            "either": [*whole, *(frozenset({each}) for each in halves)],
            "half": [frozenset({each}) for each in halves],
            "net": [frozenset({each}) for each in nets],
            "both": [frozenset({one, net}) for one in free for net in nets],
        }[kind]


def check(seed):
    case = Case(seed)
    core = case.core()
    actions = core.settle()
    placed = bound(actions)
    expected = case.exists()
    assert bool(placed) == expected, f"seed {seed}: {vars(case)}"
    assert not placed or len(placed) >= case.need
    claims = [each for (kind, _), each in core.objects.items() if kind == "ResourceClaim"]
    assert Checker(case.slices_published()).problems_of(claims) == []
    assert placed or not core.state.inventory.usage.claims
    return expected


@pytest.mark.parametrize("part", range(4))
def test_whatever_exists_is_found(part):
    seeds = range(FIRST + part, FIRST + CASES, 4)
    found = sum(map(check, seeds))
    # Both happen often.
    assert len(seeds) / 5 < found < len(seeds) * 4 / 5


@pytest.mark.parametrize("least", [True, False])
def test_of_domains_with_equal_room_those_with_few_nodes_are_taken_then_those_with_the_best_nodes(least):
    places = {"a": Place(2, 0), "b": Place(2, 5), "c": Place(2, 1), "d": Place(1, 9), "e": Place(1, 9)}
    domains = {"a": ("w",), "b": ("x",), "c": ("y",), "d": ("z",), "e": ("z",)}
    assert list(spread_over(places, domains, 2, least=least)) == [("b", 2)]
    assert list(spread_over(places, domains, 4, least=least)) == [("b", 2), ("c", 2)]
