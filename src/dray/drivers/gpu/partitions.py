"""Partitions that are made for claims: a GPU instance with one compute instance, at a given place of a GPU.

Making and destroying may be done again at any time: what is there already is used, what is gone is no error. A
partition is known by GPU, profile and place, which the name of its device has, so that one whose maker died is found
again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from dray.driver import ClaimFailed
from dray.drivers.gpu import nvml_mig
from dray.drivers.gpu.claim_state import PartitionState
from dray.drivers.gpu.nvml import Handle, Nvml, NvmlError
from dray.drivers.gpu.nvml_mig import Instance, Part

_logger = logging.getLogger(__name__)


class Partitions:
    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml

    def make(self, wanted: PartitionState) -> Part:
        """Raises NvmlError where the GPU has no room for it."""
        gpu = self._nvml.find(wanted.gpu)
        if not nvml_mig.mig_mode(gpu):
            nvml_mig.set_mig_mode(gpu, True)
        instance = _find(gpu, wanted)
        if instance is None:
            instance = nvml_mig.create_instance(gpu, wanted.profile_id, wanted.start, wanted.size)
        part = _part(gpu, instance)
        if part is None:
            nvml_mig.create_compute_instance(gpu, instance)
            part = _part(gpu, instance)
        if part is None:
            raise ClaimFailed(f"GPU instance {instance.id} of {wanted.gpu} was made, and programs cannot see it")
        return part

    def existing(self, gpu_uuid: str, profile_id: int, start: int) -> Part | None:
        gpu = self._nvml.find(gpu_uuid)
        for instance in nvml_mig.instances(gpu) if nvml_mig.mig_mode(gpu) else ():
            if (instance.profile_id, instance.start) == (profile_id, start):
                return _part(gpu, instance)
        return None

    def destroy(self, made: PartitionState) -> None:
        """With the MIG mode, where it is the last one and the mode can be switched without a reset."""
        try:
            gpu = self._nvml.find(made.gpu)
            if not nvml_mig.mig_mode(gpu):
                return
            instance = _find(gpu, made)
            if instance is not None:
                nvml_mig.destroy_instance(instance)
            self._end_mode(gpu, made.keeps_mode)
        except NvmlError as error:
            if not error.is_gone:
                raise
            _logger.warning("partition %s is gone with its GPU: %s", made.device, error)

    def free_whole(self, gpu_uuid: str) -> None:
        """The GPU can be used as a whole. Raises ClaimFailed while it has partitions."""
        gpu = self._nvml.find(gpu_uuid)
        if not nvml_mig.mig_mode(gpu):
            return
        if nvml_mig.instances(gpu):
            raise ClaimFailed(f"GPU {gpu_uuid} still has partitions, and cannot be used as a whole")
        nvml_mig.set_mig_mode(gpu, False)

    def destroy_unknown(self, gpu_uuid: str, kept: Iterable[PartitionState], keeps_mode: bool) -> list[str]:
        """All partitions of the GPU but those that claims have; gives what it destroyed."""
        gpu = self._nvml.find(gpu_uuid)
        if not nvml_mig.mig_mode(gpu):
            return []
        known = [each for each in kept if each.gpu == gpu_uuid]
        places = {(each.profile_id, each.start) for each in known}
        destroyed = []
        for instance in nvml_mig.instances(gpu):
            if (instance.profile_id, instance.start) not in places:
                nvml_mig.destroy_instance(instance)
                destroyed.append(f"GPU instance {instance.id} of profile {instance.profile_id} at {instance.start}")
        if not known:
            self._end_mode(gpu, keeps_mode)
        return destroyed

    def _end_mode(self, gpu: Handle, keeps_mode: bool) -> None:
        if not keeps_mode and not nvml_mig.instances(gpu):
            nvml_mig.set_mig_mode(gpu, False)


def _find(gpu: Handle, wanted: PartitionState) -> Instance | None:
    for each in nvml_mig.instances(gpu):
        if (each.profile_id, each.start) == (wanted.profile_id, wanted.start):
            return each
    return None


def _part(gpu: Handle, instance: Instance) -> Part | None:
    return next((each for each in nvml_mig.parts(gpu) if each.instance_id == instance.id), None)
