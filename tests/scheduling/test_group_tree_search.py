"""Small trees of groups with several levels of topology against a search that tries everything."""

import os
from dataclasses import replace
from itertools import combinations, product
from random import Random

import pytest

from dray.scheduling.model.group import Topology
from dray.testing import objects
from tests.scheduling.core import bound
from tests.scheduling.test_group_attempts import gang, member
from tests.scheduling.test_group_search import KINDS, PORT, ROOT, Case
from tests.scheduling.test_group_trees import composite
from tests.scheduling_loop.checker import Checker

CASES = int(os.environ.get("DRAY_GANG_CASES", "1100"))
FIRST = int(os.environ.get("DRAY_GANG_SEED", "1"))
PATHS = ((), ("zone",), ("zone", "rack"))


class TreeCase(Case):
    """As `Case`, with nodes in zones and racks, and pods in one to three groups, of which so many have to start."""

    def __init__(self, seed):
        super().__init__(seed)
        chance = Random(f"tree {seed}")
        self.nodes = [f"n{n}" for n in range(chance.randint(2, 4))]
        for each in self.nodes:
            self.cpu.setdefault(each, chance.randint(1, 2))
            self.gpus.setdefault(each, chance.randint(0, 3))
        self.where = {name: (chance.choice("ab"), chance.choice("xy")) for name in self.nodes}
        self.pods = sorted(chance.choice(self.pods) for _ in range(chance.randint(2, 5)))
        self.apart = chance.random() < 0.2
        number = chance.randint(1, 3)
        self.leaves = [self.pods[n::number] for n in range(number) if self.pods[n::number]]
        self.least = [max(1, len(each) - chance.choice((0, 0, 1))) for each in self.leaves]
        self.quorum = max(1, len(self.leaves) - chance.choice((0, 0, 1)))
        self.paths = [chance.choice(PATHS) for _ in self.leaves]
        self.preferred = [chance.choice(PATHS) for _ in self.leaves]
        self.path = chance.choice(PATHS)
        self.slices = [chance.choice((0, 0, 0, 2)) for _ in self.leaves]
        for n, size in enumerate(self.slices):
            if size:
                self.least[n] = len(self.leaves[n])

    def core(self):
        core = super().core()
        for name in list(core.objects):
            if name[0] in ("Pod", "PodGroup"):
                core.remove(*name)
        for name in self.nodes:
            zone, rack = self.where[name]
            core.put(objects.node(name, cpu=str(self.cpu[name]), labels={"host": name, "zone": zone, "rack": rack}))
        forest = core.state.groups.forest
        core.put(composite("root", self.quorum))
        self._constrain(forest, "root", Topology(required=self.path))
        number = 0
        for n, kinds in enumerate(self.leaves):
            spec = {"parentCompositePodGroupName": "root"} if len(self.leaves) > 1 else {}
            core.put(gang(f"g{n}", self.least[n], **spec))
            slices = ((PATHS[2], self.slices[n]),) if self.slices[n] else ()
            self._constrain(forest, f"g{n}", Topology(self.paths[n], self.preferred[n], slices))
            for kind in kinds:
                self._put(core, number, kind, f"g{n}")
                number += 1
        return core

    def _constrain(self, forest, name, topology):
        group = next(each for each in forest.all() if each.key.name == name)
        forest.put(replace(group, topology=topology))

    def _put(self, core, number, kind, group):
        claims = ["shared"] if self.shared else []
        if KINDS[kind]:
            same = [{"requests": ["gpu"], "matchAttribute": ROOT}] if kind == "pair" else None
            core.put(objects.claim(f"q{number}", *KINDS[kind], constraints=same))
            claims.append(f"q{number}")
        core.put(member(f"q{number}", of=group, claims=claims, cpu="1", container=PORT if self.apart else None))

    # Trying everything

    def exists(self):
        options = [frozenset()]
        if self.shared:
            options = [frozenset({("net", number)}) for number in range(len(self.pools))]
        numbers = range(len(self.leaves))
        path = self.path if len(self.leaves) > 1 else ()
        quorum = self.quorum if len(self.leaves) > 1 else 1
        return any(
            self._tree(chosen, zone, shared)
            for shared in options
            for chosen in combinations(numbers, quorum)
            for zone in self._domains(path, self.nodes)
        )

    def _domains(self, path, nodes):
        found = {}
        for name in nodes:
            found.setdefault(self.where[name][: len(path)], []).append(name)
        return list(found.values())

    def _tree(self, chosen, nodes, shared):
        reached = [self.pools[number] for _, number in shared]
        nodes = [name for name in nodes if all(name in each for each in reached)]
        for pods in product(*(combinations(self.leaves[n], self.least[n]) for n in chosen)):
            for domains in product(*(self._domains(self.paths[n], nodes) for n in chosen)):
                parts = [
                    (part, domain)
                    for n, mine, domain in zip(chosen, pods, domains, strict=True)
                    for part in self._parts(mine, self.slices[n])
                ]
                choices = [self._domains(PATHS[2], domain) if sliced else [domain] for (_, sliced), domain in parts]
                for allowed in product(*choices):
                    wanted = [
                        (pod, where) for ((mine, _), _), where in zip(parts, allowed, strict=True) for pod in mine
                    ]
                    if self._all(wanted, dict.fromkeys(self.nodes, 0), shared):
                        return True
        return False

    def _parts(self, pods, size):
        if not size:
            return [(pods, False)]
        return [(pods[first : first + size], True) for first in range(0, len(pods), size)]

    def _all(self, wanted, taken, used):
        if not wanted:
            return True
        kind, nodes = wanted[0]
        for name in nodes:
            if taken[name] >= (1 if self.apart else self.cpu[name]):
                continue
            for devices in self._ways(kind, name, used):
                if self._all(wanted[1:], {**taken, name: taken[name] + 1}, used | devices):
                    return True
        return False


def check(seed):
    case = TreeCase(seed)
    core = case.core()
    placed = bound(core.settle())
    expected = case.exists()
    assert bool(placed) == expected, f"seed {seed}: {vars(case)}"
    claims = [each for (kind, _), each in core.objects.items() if kind == "ResourceClaim"]
    assert Checker(case.slices_published()).problems_of(claims) == []
    assert placed or not core.state.inventory.usage.claims
    return expected


@pytest.mark.parametrize("part", range(4))
def test_whatever_exists_is_found(part):
    seeds = range(FIRST + part, FIRST + CASES, 4)
    found = sum(map(check, seeds))
    assert len(seeds) / 5 < found < len(seeds) * 4 / 5
