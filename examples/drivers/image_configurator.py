"""A driver that chooses images: `python image_configurator.py`, once in a cluster.

Its device does nothing on a machine. A claim that asks for it has, for each alternative of another request, an
ImageConfig with the image for it. The scheduler allocates, and then waits for a condition of the device (its binding
condition) before it binds the pod: meanwhile the driver puts the image of the alternative that was taken into the pod.
"""

import asyncio
from datetime import UTC, datetime

import dray.driver as dra
from dray.api.catalogue import built_in
from dray.api.resource_claims import allocation_of, reserved_for, results_of
from dray.client.api import ApiClient
from dray.client.errors import ApiError
from dray.client.http import HttpTransport
from dray.client.informer import Informer
from dray.client.interface import PatchType
from dray.client.kubeconfig import Kubeconfig
from dray.driver.claims import allocated_devices
from dray.driver.configs import decode_entries
from dray.driver.runner import DriverRunner

CLAIMS = built_in("resource.k8s.io/v1", "ResourceClaim")
PODS = built_in("v1", "Pod")


class ImageConfig(dra.Config):
    api_version = "image-configurator.x-k8s.io/v1alpha1"
    container_name: str
    image: str


class ImageConfigurator(dra.Driver):
    name = "image-configurator.x-k8s.io"
    configs = (ImageConfig,)
    of_node = False
    updated = f"{name}/image-updated"
    failed = f"{name}/image-update-failed"

    async def start(self):
        self.claims = Informer(self.context.client, CLAIMS)
        self.claims.add_handler(self.changed)
        self.tasks = {asyncio.create_task(self.claims.run())}

    async def stop(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)

    async def pools(self):
        device = dra.Device(
            "image",
            allow_multiple_allocations=True,
            binding_conditions=[self.updated],
            binding_failure_conditions=[self.failed],
        )
        everywhere = dra.NodeSelection(all_nodes=True)
        return [dra.Pool("images", [device], nodes=everywhere, skip_node_operations=["*"])]

    def changed(self, change):
        if change.type != "DELETED":
            task = asyncio.create_task(self.configure(change.object))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def configure(self, claim):
        """Each claim once: afterwards its status has the condition."""
        allocation = allocation_of(claim)
        if allocation is None or any(each["driver"] == self.name for each in claim["status"].get("devices") or ()):
            return
        devices = allocated_devices(allocation, self.name, ())
        if not devices:
            return
        metadata = claim["metadata"]
        reference = dra.ClaimReference(metadata["namespace"], metadata["name"], metadata["uid"])
        try:
            await self.set_image(claim, allocation)
            condition = self.condition(self.updated, "Updated")
        except (ApiError, dra.DriverError) as error:
            condition = self.condition(self.failed, "Failed", str(error))
        status = dra.DeviceStatus(conditions=[condition])
        await self.context.apply_device_status(reference, dict.fromkeys(devices, status))

    async def set_image(self, claim, allocation):
        taken = [each["request"] for each in results_of(claim)]
        entries = decode_entries(allocation, self.name, self.configs)
        chosen = [each.config for each in entries if any(each.applies_to(request) for request in taken)]
        pods = [each["name"] for each in reserved_for(claim) if each.get("resource") == "pods"]
        for pod in pods:
            for config in chosen:
                body = {"spec": {"containers": [{"name": config.container_name, "image": config.image}]}}
                namespace = claim["metadata"]["namespace"]
                await self.context.client.patch(PODS, pod, body, namespace=namespace, patch_type=PatchType.STRATEGIC)

    def condition(self, kind, reason, message=""):
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}


async def main():
    async with ApiClient(HttpTransport(Kubeconfig.load().endpoint())) as client:
        await DriverRunner(ImageConfigurator(), client, dra.RunnerOptions()).run()


if __name__ == "__main__":
    asyncio.run(main())
