"""A kubelet's client made from `.proto` text that is written here, with a descriptor pool of its own.

It shares nothing with the package's generated code, so that both have to agree with the protocol.
"""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

REGISTRATION = """
syntax = "proto3"; package pluginregistration;
message RegistrationStatus { bool plugin_registered = 1; string error = 2; }
message RegistrationStatusResponse {}
message InfoRequest {}
message PluginInfo { string type = 1; string name = 2; string endpoint = 3; repeated string supported_versions = 4; }
service Registration {
  rpc GetInfo(InfoRequest) returns (PluginInfo);
  rpc NotifyRegistrationStatus(RegistrationStatus) returns (RegistrationStatusResponse);
}
"""
DRA = """
syntax = "proto3"; package k8s.io.kubelet.pkg.apis.dra.VERSION;
message Claim { string namespace = 1; string uid = 2; string name = 3; }
message Device {
  repeated string request_names = 1; string pool_name = 2; string device_name = 3; repeated string cdi_device_ids = 4;
  SHARE
}
message Prepared { repeated Device devices = 1; string error = 2; }
message Unprepared { string error = 1; }
message NodePrepareResourcesRequest { repeated Claim claims = 1; }
message NodePrepareResourcesResponse { map<string, Prepared> claims = 1; }
message NodeUnprepareResourcesRequest { repeated Claim claims = 1; }
message NodeUnprepareResourcesResponse { map<string, Unprepared> claims = 1; }
service DRAPlugin {
  rpc NodePrepareResources(NodePrepareResourcesRequest) returns (NodePrepareResourcesResponse);
  rpc NodeUnprepareResources(NodeUnprepareResourcesRequest) returns (NodeUnprepareResourcesResponse);
}
"""
HEALTH = """
syntax = "proto3"; package VERSION;
message NodeWatchResourcesRequest {}
message Identifier { string pool_name = 1; string device_name = 2; }
enum Status { UNKNOWN = 0; HEALTHY = 1; UNHEALTHY = 2; }
message Report {
  Identifier device = 1; Status health = 2; int64 last_updated_time = 3; int64 health_check_timeout_seconds = 4;
  string message = 5;
}
message NodeWatchResourcesResponse { repeated Report devices = 1; }
service DRAResourceHealth {
  rpc NodeWatchResources(NodeWatchResourcesRequest) returns (stream NodeWatchResourcesResponse);
}
"""
FILES = {
    "registration.proto": REGISTRATION,
    "dra_v1.proto": DRA.replace("VERSION", "v1").replace("SHARE", "optional string share_id = 5;"),
    "dra_v1beta1.proto": DRA.replace("VERSION", "v1beta1").replace("SHARE", ""),
    "health_v1.proto": HEALTH.replace("VERSION", "v1"),
    "health_v1alpha1.proto": HEALTH.replace("VERSION", "v1alpha1"),
}


@cache
def pool() -> descriptor_pool.DescriptorPool:
    made = descriptor_pool.DescriptorPool()
    with tempfile.TemporaryDirectory() as directory:
        for name, text in FILES.items():
            Path(directory, name).write_text(text)
        output = Path(directory, "set")
        assert protoc.main(["protoc", f"-I{directory}", f"--descriptor_set_out={output}", *FILES]) == 0
        for file in descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file:
            made.Add(file)
    return made


class Plugin:
    """The services of a driver at a socket: `await plugin.call("pkg.Service/Method", field=...)`."""

    def __init__(self, socket: Path | str) -> None:
        # Without a pool of subchannels of its own a channel would share the back-off of an earlier one.
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", [("grpc.use_local_subchannel_pool", 1)])

    async def __aenter__(self) -> "Plugin":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def call(self, method: str, timeout: float = 10.0, **fields: Any) -> Any:
        request, _, response = self._types(method)
        call = self._channel.unary_unary(
            f"/{method}", request_serializer=request.SerializeToString, response_deserializer=response.FromString
        )
        return await call(request(**fields), timeout=timeout, wait_for_ready=True)

    def stream(self, method: str, **fields: Any) -> Any:
        request, _, response = self._types(method)
        call = self._channel.unary_stream(
            f"/{method}", request_serializer=request.SerializeToString, response_deserializer=response.FromString
        )
        return call(request(**fields), wait_for_ready=True)

    async def prepare(self, *claims: dict[str, str], version: str = "v1", timeout: float = 10.0) -> Any:
        method = f"k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin/NodePrepareResources"
        return (await self.call(method, timeout, claims=list(claims))).claims

    async def unprepare(self, *claims: dict[str, str], version: str = "v1", timeout: float = 10.0) -> Any:
        method = f"k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin/NodeUnprepareResources"
        return (await self.call(method, timeout, claims=list(claims))).claims

    @staticmethod
    def _types(method: str) -> tuple[Any, Any, Any]:
        service, _, name = method.rpartition("/")
        found = pool().FindServiceByName(service).FindMethodByName(name)
        request = message_factory.GetMessageClass(found.input_type)
        return request, found, message_factory.GetMessageClass(found.output_type)
