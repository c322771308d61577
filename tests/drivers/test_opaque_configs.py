"""Configuration is judged before prepare as the driver judges it."""

import pytest

from dray.driver import Driver
from dray.drivers.opaque_configs import TYPES, ConfigProblem, problem_of
from dray.drivers.registry import _OWN, _class_of

NVIDIA = "resource.nvidia.com/v1beta1"


def gpu(kind="GpuConfig", **sharing):
    return {"apiVersion": NVIDIA, "kind": kind, "sharing": sharing}


@pytest.mark.parametrize(
    ("driver", "parameters", "member", "message"),
    [
        (
            "gpu.nvidia.com",
            gpu(strategy="TimeSlicin"),
            "sharing.strategy",
            f"{NVIDIA} GpuConfig: Invalid enum value 'TimeSlicin'; there are MPS, TimeSlicing",
        ),
        ("gpu.nvidia.com", gpu(strategy="MPS", foo=1), "sharing", "unknown field `foo`"),
        ("gpu.nvidia.com", gpu(strategy="MPS", timeSlicingConfig={}), "", "timeSlicingConfig belongs to"),
        ("gpu.nvidia.com", {"apiVersion": NVIDIA, "kind": "GpuConfg"}, "", "GpuConfg is not known; the driver takes"),
        ("gpu.nvidia.com", gpu("MigDeviceConfig", strategy="TimeSlicing", timeSlicingConfig={}), "", "partitions have"),
        ("gpu.nvidia.com", gpu(strategy="MPS", mpsConfig={"defaultPinnedDeviceMemoryLimit": 4096}), "", "at least 1Mi"),
        *(
            (
                "gpu.nvidia.com",
                gpu(strategy="MPS", mpsConfig={"defaultPerDevicePinnedMemoryLimit": {key: "1Gi"}}),
                "",
                f"defaultPerDevicePinnedMemoryLimit has '{key}': give the UUID",
            )
            for key in ("gpu-0", "-1", "", "٣")
        ),
        (
            "compute-domain.nvidia.com",
            {"apiVersion": NVIDIA, "kind": "ComputeDomainChannelConfig", "domainID": ""},
            "",
            "domainID must not be empty",
        ),
        ("dra.net", {"interface": {"mtu": "1400"}}, "interface.mtu", "Expected `int | null`, got `str`"),
        ("dra.net", {"interfce": {}}, "", "unknown field `interfce`"),
        ("dra.cpu", {"apiVersion": "v1alpha1", "cpuConfig": {"cpuset": "two"}}, "", "'two' is not a list of CPUs"),
        ("tpu.google.com", {"apiVersion": "v1", "kind": "TpuConfig"}, "", "the driver takes no configuration"),
    ],
)
def test_what_a_driver_would_refuse_is_found_with_its_place(driver, parameters, member, message):
    problem = problem_of(driver, parameters)
    assert isinstance(problem, ConfigProblem)
    assert problem.member == member
    assert message in problem.message


@pytest.mark.parametrize(
    ("driver", "parameters"),
    [
        ("gpu.nvidia.com", gpu(strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"})),
        ("gpu.nvidia.com", gpu(strategy="TimeSlicing", timeSlicingConfig={"interval": None}, mpsConfig=None)),
        ("gpu.nvidia.com", gpu(strategy="MPS", mpsConfig={"defaultPinnedDeviceMemoryLimit": 1073741824})),
        (
            "gpu.nvidia.com",
            gpu(strategy="MPS", mpsConfig={"defaultPerDevicePinnedMemoryLimit": {"0": 2e9, "1": "2Gi"}}),
        ),
        # NVIDIA's own driver takes it.
        ("gpu.nvidia.com", {"apiVersion": NVIDIA, "kind": "VfioDeviceConfig", "iommu": {}}),
        ("compute-domain.nvidia.com", {"apiVersion": NVIDIA, "kind": "ComputeDomainDaemonConfig", "domainID": "x"}),
        ("dra.net", {"interface": {"name": "net1", "mtu": 1400, "vrf": None}}),
        ("dra.cpu", {"apiVersion": "v1alpha1", "cpuConfig": {"cpuset": "0-1"}}),
        # Of a driver that dray does not know, and no parameters at all: an API server refuses these.
        ("driver.example.com", {"anything": "goes"}),
        ("gpu.nvidia.com", "text"),
    ],
)
def test_what_a_driver_takes_is_no_problem(driver, parameters):
    assert problem_of(driver, parameters) is None


def test_every_driver_of_dray_is_there_with_the_types_that_it_decodes():
    found = [_class_of(place) for place in _OWN.values()]
    assert {driver.name for driver in found} <= set(TYPES)
    for driver in found:
        assert issubclass(driver, Driver)
        assert set(driver.configs) <= set(TYPES[driver.name])


def test_numbers_become_limits_in_whole_mib():
    from dray.driver.configs import decode

    config = decode(
        gpu(strategy="MPS", mpsConfig={"defaultPinnedDeviceMemoryLimit": 15 * 2**30}), TYPES["gpu.nvidia.com"]
    )
    assert config.sharing.mps_config.pinned_memory_limits(["GPU-1"]) == {"GPU-1": "15360M"}
