import pytest

from .machines import GpuMachine, compile_library, gpus_of


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory):
    library = compile_library(tmp_path_factory.mktemp("nvml"))
    if library is None:
        pytest.skip("gcc is not installed: it compiles the library that stands in for NVML")
    return library


@pytest.fixture
def gpu_machine(nvml_library, tmp_path, monkeypatch):
    """Makes the machine that drivers find themselves on: `gpu_machine("p5.48xlarge", count=2, mig=(0,))`."""

    def make(machine_type, count=None, mig=()):
        machine = GpuMachine(tmp_path / "machine", nvml_library, gpus_of(machine_type, count), mig)
        monkeypatch.setenv("NVML_STAND_IN", str(machine.state))
        return machine

    return make
