"""Random worlds that change, with everything that makes pods of a queue unlike.

There are equal jobs in bursts, node selectors, pods that never preempt or cannot be preempted, delays and minimum
runtimes of KAI, and borrowing and flavor policies of Kueue. All delays are over when the world is at rest.
"""

from copy import deepcopy

from tests.scheduling.changing_worlds import ChangingWorld
from tests.scheduling.random_worlds import KAI

PRIORITIES = (0, 0, 5, 10, 100)
"""Pods of KAI cannot be preempted from 100 on."""


class VariedWorld(ChangingWorld):
    def settle(self, quiet=5, seconds=20.0):
        """Plays on until all runtimes are over, of pods too that start half a minute after they were bound."""
        super().settle(quiet, seconds)

    def step(self):
        if self.chance.random() < 0.25:
            what = {"kai": "runtime", "kueue": "fungibility"}.get(self.system)
            if what is not None:
                self._change(what)
        super().step()

    def _submit(self):
        before = self.chance.getstate()
        super()._submit()
        for _ in range(self.chance.choice((0, 0, 0, 1, 2))):
            # The same numbers make an equal job with another name.
            after = self.chance.getstate()
            self.chance.setstate(before)
            super()._submit()
            self.chance.setstate(after)

    def _written_job(self, job, priority):
        chance = self.chance
        if chance.random() < 0.3:
            priority = chance.choice(PRIORITIES)
        more = {"preemptionPolicy": "Never"} if chance.random() < 0.1 else {}
        delay = chance.choice(("10s", "30s")) if self.system == "kai" and chance.random() < 0.15 else ""
        kind = chance.choice(("preemptible", "non-preemptible")) if chance.random() < 0.1 else ""
        sides = chance.choice((self.flavors, self.flavors, (chance.choice(self.flavors),)))
        selects = len(self.flavors) > 1 and chance.random() < 0.4
        for document in super()._written_job(job, priority):
            if document["kind"] == "Pod":
                document["spec"].update(more)
                if selects:
                    document["spec"]["nodeSelector"] = {"flavor": chance.choice(sides)}
                labels = {"kai.scheduler/preemption-delay": delay, "kai.scheduler/preemptibility": kind}
                document["metadata"]["labels"].update({name: value for name, value in labels.items() if value})
            elif document["apiVersion"] == KAI:
                said = {"preemptionDelay": delay, "preemptibility": kind}
                document["spec"].update({name: value for name, value in said.items() if value})
            yield document

    def _change_runtime(self):
        queue = self._random("Queue")
        if queue is not None:
            name = self.chance.choice(("preemptMinRuntime", "reclaimMinRuntime"))
            value = self.chance.choice(("20s", "45s", None))
            self._note(name, "of", queue["metadata"]["name"], value)
            self._edit(queue, lambda spec: spec.update({name: value}) if value else spec.pop(name, None))

    def _change_fungibility(self):
        queue = self._random("ClusterQueue")
        if queue is None or queue["spec"]["preemption"]["reclaimWithinCohort"] == "Never":
            return
        chance = self.chance
        flavors = {
            "whenCanBorrow": chance.choice(("Borrow", "TryNextFlavor")),
            "whenCanPreempt": chance.choice(("Preempt", "TryNextFlavor")),
        }
        borrowing = {"policy": chance.choice(("Never", "LowerPriority"))}
        if borrowing["policy"] != "Never" and chance.random() < 0.5:
            borrowing["maxPriorityThreshold"] = chance.choice((0, 5))
        self._note("flavorFungibility of", queue["metadata"]["name"], flavors, borrowing)

        def edit(spec):
            spec["flavorFungibility"] = flavors
            preemption = deepcopy(spec.get("preemption") or {})
            spec["preemption"] = {**preemption, "borrowWithinCohort": borrowing}

        self._edit(queue, edit)
