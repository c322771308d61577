"""A simulated fleet with scheduler and controllers, to which example manifests are applied as to a cluster."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

from click.testing import CliRunner

from dray.api.objects import key_of
from dray.cli import main
from dray.fleet.choice import choose
from dray.fleet.simulation import Simulation
from dray.scheduling.scheduler import Options
from dray.testing.api_endpoint import ApiEndpoint
from dray.testing.cluster import LocalCluster

EXAMPLES = Path(__file__).parents[2] / "examples"
CONTROLLERS = ["resourceclaim", "deployment", "replicaset"]


class Rehearsal:
    def __init__(self, cluster, kubeconfig):
        self.cluster = cluster
        self._kubeconfig = kubeconfig
        # The runner takes the standard output of the whole process.
        self._alone = asyncio.Lock()

    async def apply(self, path):
        """A file of the examples, as a user does it."""
        said = await self.dray("apply", "-f", str(EXAMPLES / path))
        assert said
        assert all(line.endswith(" created") for line in said.splitlines()), said

    async def pods(self, **labels):
        listed = await self.cluster.list("Pod", namespace="default")
        return [each for each in listed if labels.items() <= (each["metadata"].get("labels") or {}).items()]

    async def running(self, count, **labels):
        """So many pods with these labels, once they run."""

        async def found():
            there = [each for each in await self.pods(**labels) if each.get("status", {}).get("phase") == "Running"]
            return there if len(there) == count else None

        return sorted(await self.cluster.eventually(found), key=key_of)

    async def refused(self, **labels):
        """The pod that does not fit, once the scheduler has said so."""

        async def found():
            for each in await self.pods(**labels):
                for condition in each.get("status", {}).get("conditions") or ():
                    if condition["type"] == "PodScheduled" and condition["status"] == "False":
                        return each, condition["message"]
            return None

        return await self.cluster.eventually(found)

    async def devices(self, pod):
        """What the claims of a pod hold: attributes by request, with the name of the device."""
        slices = await self.cluster.list("ResourceSlice")
        known = {
            (each["spec"]["driver"], each["spec"]["pool"]["name"], device["name"]): device
            for each in slices
            for device in each["spec"].get("devices", ())
        }
        names = [each["resourceClaimName"] for each in pod["status"].get("resourceClaimStatuses") or ()]
        names += [each["resourceClaimName"] for each in pod["spec"]["resourceClaims"] if "resourceClaimName" in each]
        found = {}
        for name in names:
            claim = await self.cluster.get("ResourceClaim", name)
            for result in claim["status"]["allocation"]["devices"]["results"]:
                device = known[result["driver"], result["pool"], result["device"]]
                found.setdefault(result["request"], []).append(device)
        return found

    async def dray(self, *arguments):
        """Standard output of a command on this cluster."""
        given = [arguments[0], "--kubeconfig", str(self._kubeconfig), *arguments[1:]]
        async with self._alone:
            return (await asyncio.to_thread(CliRunner().invoke, main, given)).output


@asynccontextmanager
async def rehearsing(folder, *choices, controllers=(), objects=()):
    """A fleet with these objects, and with controllers beside the usual ones."""
    async with (
        LocalCluster(scheduler=Options(), controllers=[*CONTROLLERS, *controllers], objects=objects) as cluster,
        ApiEndpoint(cluster.application) as api,
    ):
        simulation = Simulation(cluster.client, choose([str(each) for each in choices]))
        cluster.start(simulation.run())
        await simulation.ready.wait()
        yield Rehearsal(cluster, api.write_kubeconfig(folder / "kubeconfig"))
