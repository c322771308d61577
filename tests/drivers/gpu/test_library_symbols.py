"""A library that exports few symbols of NVML, some in other versions than `pynvml` calls."""

import pytest

from dray.drivers.gpu.binding import pynvml
from dray.drivers.gpu.nvml import facts, uuid_of
from dray.drivers.gpu.nvml_calls import NvmlError, call, optional
from dray.drivers.gpu.nvml_mig import (
    Instance,
    create_compute_instance,
    destroy_instance,
    is_mig_on,
    parts,
    profiles,
)
from dray.drivers.gpu.nvml_session import Nvml

from .machines import FEW_SYMBOLS, compile_library

OLD = r"""
typedef struct {
    unsigned int id, p2p, slices, count, processors, copy, decoders, encoders, jpeg, ofa;
    unsigned long long memory;
} profile_t;
typedef struct { unsigned int id, slices, count, processors, copy, decoders, encoders, jpeg, ofa; } compute_t;
static int device, has_compute;
int nvmlInit(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount(unsigned int *count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex(unsigned int index, void **found) { *found = &device; return index ? 2 : 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12040; return 0; }
int nvmlDeviceGetGpuInstanceProfileInfo(void *gpu, unsigned int index, profile_t *found) {
    (void)gpu;
    if (index != 2) return 3;
    *found = (profile_t){9, 0, 3, 2, 60, 3, 3, 0, 3, 0, 40448};
    return 0;
}
int nvmlDeviceGetGpuInstancePossiblePlacements_v2(
    void *gpu, unsigned int id, unsigned int *places, unsigned int *count
) {
    (void)gpu; (void)id;
    *count = 2;
    if (places) { places[0] = 0; places[1] = 4; places[2] = 4; places[3] = 4; }
    return 0;
}
int nvmlGpuInstanceGetComputeInstanceProfileInfo(
    void *instance, unsigned int index, unsigned int engines, compute_t *found
) {
    (void)instance;
    if (index != 2 || engines) return 3;
    *found = (compute_t){2, 3, 1, 60, 3, 3, 0, 3, 0};
    return 0;
}
int nvmlGpuInstanceCreateComputeInstance(void *instance, unsigned int id, void **made) {
    if (id != 2) return 2;
    *made = instance;
    has_compute = 1;
    return 0;
}
int nvmlGpuInstanceGetComputeInstances(void *instance, unsigned int id, void **found, unsigned int *count) {
    *count = has_compute && id == 2;
    *found = instance;
    return 0;
}
int nvmlComputeInstanceDestroy(void *compute) { (void)compute; has_compute = 0; return 0; }
int nvmlGpuInstanceDestroy(void *instance) { (void)instance; return has_compute ? 19 : 0; }
"""


@pytest.fixture
def few(tmp_path):
    return compiled(tmp_path, FEW_SYMBOLS)


def compiled(directory, sources):
    library = compile_library(directory, sources)
    if library is None:
        pytest.skip("gcc is not installed: it compiles the library that stands in for NVML")
    return Nvml(library)


def test_what_a_gpu_tells_and_what_it_does_not(few):
    with few.opened():
        assert (few.count(), few.driver_version, few.cuda_version) == (2, "", "")
        handle = few.device(0)
        uuid = uuid_of(handle)
        told = facts(handle, uuid, optional)
        assert (told.minor, told.name, told.memory) == (1, "NVIDIA GeForce RTX 4090", 24 << 30)
        assert (told.brand, told.compute_capability, told.pci_bus_id) == ("", "", "")
        # By its UUID, though the library has no function for that.
        assert uuid_of(few.find(uuid)) == uuid
        with pytest.raises(NvmlError, match="GPU-none: Not Found"):
            few.find("GPU-none")


def test_mig_mode_without_functions_for_partitions(few, monkeypatch):
    monkeypatch.setenv("NVML_H100", "3")
    with few.opened():
        assert [is_mig_on(few.device(index)) for index in range(3)] == [False, True, True]
        assert parts(few.device(1)) == []
        assert profiles(few.device(1)) == ()


def test_a_function_that_is_missing_and_needed_is_named(few):
    with few.opened(), pytest.raises(NvmlError, match="compute mode: Function Not Found") as raised:
        call("compute mode", pynvml.nvmlDeviceGetComputeMode, few.device(0))
    assert raised.value.is_unexported


def test_the_first_versions_of_functions(tmp_path):
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/old.c").write_text(OLD)
    old = compiled(tmp_path, tmp_path / "sources")
    with old.opened():
        assert (old.count(), old.cuda_version) == (1, "12.4.0")
        (profile,) = profiles(old.device(0))
        assert (profile.profile, profile.id, profile.memory) == ("3g.40gb", 9, "40448Mi")
        assert (profile.placements, profile.size) == ((0, 4), 4)


def test_partitions_with_the_first_versions_of_functions(tmp_path):
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/old.c").write_text(OLD)
    old = compiled(tmp_path, tmp_path / "sources")
    with old.opened():
        gpu = old.device(0)
        instance = Instance(gpu, id=1, profile_id=9, start=0, size=4)
        create_compute_instance(gpu, instance)
        # A GPU instance with a compute instance is in use.
        destroy_instance(instance)
