"""Partitions that are made for claims: a GPU instance with one compute instance, at a given place of a GPU.

Making and destroying may be done again at any time: what is there already is used, what is gone is no error. A
partition is known by GPU, profile and place, which the name of its device has, so that one whose maker died is found
again.
"""

from __future__ import annotations

from dray.driver import ClaimFailed
from dray.drivers.gpu import nvml_mig
from dray.drivers.gpu.claim_state import PartitionState
from dray.drivers.gpu.nvml_mig import Instance, Part
from dray.drivers.gpu.nvml_session import Handle, Nvml


class Partitions:
    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml

    def make(self, wanted: PartitionState) -> Part:
        """Raises NvmlError where the GPU has no room for it."""
        with self._nvml.opened():
            return self._make(wanted)

    def _make(self, wanted: PartitionState) -> Part:
        gpu = self._nvml.find(wanted.gpu)
        if not nvml_mig.is_mig_on(gpu):
            nvml_mig.set_mig_mode(gpu, wanted.gpu, True)
        instance = _find(gpu, wanted)
        if instance is None:
            instance = nvml_mig.create_instance(gpu, wanted.gpu, wanted.profile_id, wanted.start, wanted.size)
        part = _part(gpu, instance)
        if part is None:
            nvml_mig.create_compute_instance(gpu, instance)
            part = _part(gpu, instance)
        if part is None:
            raise ClaimFailed(f"GPU instance {instance.id} of {wanted.gpu} was made, and programs cannot see it")
        return part

    def existing(self, gpu_uuid: str, uuid: str) -> Part | None:
        """Returns the partition with that UUID; None if it is gone. A GPU instance may have several."""
        with self._nvml.opened():
            gpu = self._nvml.find(gpu_uuid)
            parts = nvml_mig.parts(gpu) if nvml_mig.is_mig_on(gpu) else []
        return next((part for part in parts if part.uuid == uuid), None)

    def listed(self, gpu_uuid: str) -> list[Instance] | None:
        """Returns all partitions of the GPU; None if its MIG mode is off."""
        with self._nvml.opened():
            gpu = self._nvml.find(gpu_uuid)
            return nvml_mig.instances(gpu) if nvml_mig.is_mig_on(gpu) else None

    def destroy(self, made: PartitionState) -> None:
        """Raises DriverError where the GPU refuses. A partition that is gone is no error."""
        with self._nvml.opened():
            gpu = self._nvml.find(made.gpu)
            instance = _find(gpu, made) if nvml_mig.is_mig_on(gpu) else None
            if instance is not None:
                nvml_mig.destroy_instance(instance)
                if _find(gpu, made) is not None:
                    raise ClaimFailed(f"GPU instance {instance.id} of {made.gpu} is still there after it was destroyed")

    def end_mode(self, gpu_uuid: str) -> None:
        """Switches the MIG mode off, unless the GPU has partitions."""
        with self._nvml.opened():
            gpu = self._nvml.find(gpu_uuid)
            if nvml_mig.is_mig_on(gpu) and not nvml_mig.instances(gpu):
                nvml_mig.set_mig_mode(gpu, gpu_uuid, False)

    def free_whole(self, gpu_uuid: str) -> None:
        """The GPU can be used as a whole. Raises ClaimFailed while it has partitions."""
        with self._nvml.opened():
            gpu = self._nvml.find(gpu_uuid)
            if not nvml_mig.is_mig_on(gpu):
                return
            if nvml_mig.instances(gpu):
                raise ClaimFailed(f"GPU {gpu_uuid} still has partitions, and cannot be used as a whole")
            nvml_mig.set_mig_mode(gpu, gpu_uuid, False)


def _find(gpu: Handle, wanted: PartitionState) -> Instance | None:
    for instance in nvml_mig.instances(gpu, wanted.profile_id):
        if (instance.profile_id, instance.start) == (wanted.profile_id, wanted.start):
            return instance
    return None


def _part(gpu: Handle, instance: Instance) -> Part | None:
    return next((part for part in nvml_mig.parts(gpu) if part.instance_id == instance.id), None)
