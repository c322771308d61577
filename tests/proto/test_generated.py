"""The committed messages of the protocols is what `make proto` writes, and is loaded by those alone who speak gRPC."""

import subprocess
import sys
from pathlib import Path

import pytest

import dray._proto
from dray._proto import services

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
    ("service", "paths"),
    [
        (
            services.REGISTRATION,
            ["/pluginregistration.Registration/GetInfo", "/pluginregistration.Registration/NotifyRegistrationStatus"],
        ),
        (
            services.DRA_V1,
            [
                "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources",
                "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources",
            ],
        ),
        (
            services.DRA_V1BETA1,
            [
                "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources",
                "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodeUnprepareResources",
            ],
        ),
        (services.HEALTH_V1, ["/v1.DRAResourceHealth/NodeWatchResources"]),
        (services.HEALTH_V1ALPHA1, ["/v1alpha1.DRAResourceHealth/NodeWatchResources"]),
        (
            services.POD_RESOURCES_V1,
            [
                "/v1.PodResourcesLister/List",
                "/v1.PodResourcesLister/GetAllocatableResources",
                "/v1.PodResourcesLister/Get",
            ],
        ),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_services_have_the_names_that_kubelets_dial(service: services.Service, paths: list[str]) -> None:
    assert [service.path(method.name) for method in service.methods()] == paths
