"""The committed code of the protocols is what `make proto` writes, and is loaded by those alone who speak gRPC."""

import subprocess
import sys
from pathlib import Path

import pytest

import dray._proto
from dray._proto import (
    dra_health_v1_pb2,
    dra_health_v1alpha1_pb2,
    dra_v1_pb2,
    dra_v1beta1_pb2,
    podresources_v1_pb2,
    podresources_v1alpha1_pb2,
    registration_pb2,
)

COMMITTED = Path(dray._proto.__file__).parent
TOOL = Path(__file__).parents[2] / "tools/generate_proto.py"


def test_the_committed_code_is_current(tmp_path: Path) -> None:
    # A process of its own: protoc keeps global state.
    subprocess.run([sys.executable, TOOL, tmp_path], check=True)
    written = {path.name: path.read_text() for path in (tmp_path / "dray/_proto").iterdir()}
    committed = {path.name: path.read_text() for path in COMMITTED.glob("*_pb2*.py*")}
    assert written == committed, "run `make proto`"


@pytest.mark.parametrize("module", ["dray", "dray.cli", "dray.control_plane", "dray.testing.fixtures"])
def test_grpc_is_not_loaded_without_drivers(module: str) -> None:
    code = f"import sys, {module}; print([name for name in ('grpc', 'google.protobuf') if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == "[]"


@pytest.mark.parametrize(
    ("module", "service", "methods"),
    [
        (registration_pb2, "pluginregistration.Registration", ["GetInfo", "NotifyRegistrationStatus"]),
        (
            dra_v1_pb2,
            "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
            ["NodePrepareResources", "NodeUnprepareResources"],
        ),
        (
            dra_v1beta1_pb2,
            "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin",
            ["NodePrepareResources", "NodeUnprepareResources"],
        ),
        (dra_health_v1_pb2, "v1.DRAResourceHealth", ["NodeWatchResources"]),
        (dra_health_v1alpha1_pb2, "v1alpha1.DRAResourceHealth", ["NodeWatchResources"]),
        (podresources_v1_pb2, "v1.PodResourcesLister", ["List", "GetAllocatableResources", "Get"]),
        (podresources_v1alpha1_pb2, "v1alpha1.PodResourcesLister", ["List"]),
    ],
)
def test_services_have_the_names_that_kubelets_dial(module: object, service: str, methods: list[str]) -> None:
    (found,) = module.DESCRIPTOR.services_by_name.values()  # type: ignore[attr-defined]
    assert found.full_name == service
    assert [method.name for method in found.methods] == methods
