"""The variables by which CUDA programs are told their GPUs, by UUID."""

from __future__ import annotations

from dray.driver.cdi.joined_environment import device_annotations


def visible_devices(uuid: str) -> dict[str, str]:
    """Returns the annotations of a CDI device for a GPU or a partition; programs number the devices from 0."""
    return device_annotations({"CUDA_VISIBLE_DEVICES": uuid, "NVIDIA_VISIBLE_DEVICES": uuid})
