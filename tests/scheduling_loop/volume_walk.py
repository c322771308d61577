"""The random walk in which queues change, with volumes: claims, volumes and storage classes come and go.

Claims that wait for their first consumer are bound to a volume of its node before the pod is; others are bound some
time after they were created. Volumes can be reached from one node or one zone.
"""

from dray.api.volumes import SELECTED_NODE, is_bound
from tests.scheduling.test_volumes import DONE, storage_class, volume
from tests.scheduling_loop.changing_walk import ChangingWalk

CLAIM, VOLUME, CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"
ZONE = "topology.kubernetes.io/zone"
_NUMBER = 6
_TERMS = [{"matchLabelExpressions": [{"key": "zone", "values": ["z0"]}]}]


class VolumeWalk(ChangingWalk):
    def __init__(self, seed, system):
        super().__init__(seed, system)
        for each in self._classes():
            self.put(each)
        for _ in range(10):
            self.change_volume()

    def _classes(self):
        for found in (
            storage_class("anywhere"),
            storage_class("zoned", allowedTopologies=_TERMS),
            storage_class("at-once", "Immediate"),
        ):
            yield {"kind": CLASS, **found}

    def _serve(self, scheduler):
        super()._serve(scheduler)
        scheduler.state.volumes.known = scheduler.state.volumes.volumes_known = True

    async def _create(self, document):
        if document["kind"] == "Pod" and self.random.random() < 0.3:
            named = {"name": "v", "persistentVolumeClaim": {"claimName": f"v{self.random.randrange(_NUMBER)}"}}
            document = {**document, "spec": {**document["spec"], "volumes": [named]}}
        await super()._create(document)

    def step(self):
        if self.random.random() < 0.15:
            self.change_volume()
            self.go_on(self.random.random())
        else:
            super().step()

    def change_volume(self):
        random = self.random
        name = f"v{random.randrange(_NUMBER)}"
        claim, number = self.objects.get((CLAIM, name)), random.random()
        if number < 0.1:
            found = random.choice(list(self._classes()))
            key = CLASS, found["metadata"]["name"]
            self.remove(*key) if key in self.objects else self.put(found)
        elif claim is None:
            wanted = random.choice(("anywhere", "zoned", "at-once"))
            self.put({"kind": CLAIM, "metadata": _named(name), "spec": {"storageClassName": wanted}})
        elif not is_bound(claim):
            if claim["spec"]["storageClassName"] == "at-once":
                self._put_volume(name)
                self._bind_claim(claim)
        elif (VOLUME, f"pv-{name}") not in self.objects:
            self._put_volume(name)
        elif number < 0.3:
            self.remove(VOLUME, f"pv-{name}")
        elif number < 0.5:
            self.remove(CLAIM, name)

    def _put_volume(self, name, node=None):
        zone = {} if node or self.random.random() < 0.5 else {ZONE: self.random.choice(("z0", "z1"))}
        if not node and not zone:
            node = self.random.choice(sorted(self.state.nodes) or ["n0"])
        self.put({"kind": VOLUME, **volume(f"pv-{name}", node=node, **zone)})

    def _bind_claim(self, claim, **annotations):
        name = claim["metadata"]["name"]
        bound = {**claim["metadata"], "annotations": {**DONE, **annotations}}
        self.put({**claim, "metadata": bound, "spec": {**claim["spec"], "volumeName": f"pv-{name}"}})

    def _bind(self, binds):
        for bind in binds:
            for claim in bind.volumes:
                if not self._provision(claim, bind.node):
                    for each in binds:
                        self._leave_claims(each.pod.uid)
                        self.scheduler.failed(each, self.now)
                    return
        super()._bind(binds)

    def _provision(self, claim, node):
        """Returns whether the claim has a volume of the node now."""
        name = claim["metadata"]["name"]
        known = self._known(CLAIM, name, claim["metadata"]["uid"])
        if known is None:
            return False
        if not is_bound(known):
            self._put_volume(name, node)
            self._bind_claim(known, **{SELECTED_NODE: node})
            return True
        return (known["metadata"].get("annotations") or {}).get(SELECTED_NODE) == node


def _named(name):
    return {"name": name, "namespace": "default"}
