from tests.drivers.test_imports import INSPECT, run


def test_the_binding_that_is_missing_is_named(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    settings = [f"--set={key}={value}" for key, value in machine.settings().items()]
    result = run(INSPECT, "gpu", *settings)
    assert result.returncode == 2
    assert "the package nvidia-ml-py is missing: pip install nvidia-ml-py" in result.stderr
    assert len(result.stderr.splitlines()) == 1
