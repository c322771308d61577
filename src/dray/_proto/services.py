"""Services of the kubelet's protocols: the client's stubs and the server's handlers, made from their descriptors.

Older versions of a protocol have the messages of v1, or fewer fields of them, under another name of the service: what
is written and read is the same bytes, so the same messages serve all of them. Whoever speaks an older version leaves
out what that does not have: DRA v1beta1 the share ids, pod resources v1alpha1 all but names and device plugins.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from dray._proto import kubelet_pb2


@dataclass(frozen=True, slots=True)
class Service:
    """`name` is what clients dial: the package of the protocol's version, and the service's name in kubelet.proto."""

    name: str

    def path(self, method: str) -> str:
        return f"/{self.name}/{method}"

    def methods(self) -> list[MethodDescriptor]:
        return list(kubelet_pb2.DESCRIPTOR.services_by_name[self.name.rpartition(".")[2]].methods)

    def stub(self, channel: grpc.aio.Channel) -> Any:
        """One function for each method: `await stub.Method(request, timeout=...)`, or `async for` over a stream."""
        return SimpleNamespace(**{each.name: self._call(channel, each) for each in self.methods()})

    def serve(self, servicer: object, server: grpc.aio.Server) -> None:
        """Has the server answer with the methods of `servicer`; those that it does not have are unimplemented."""
        served = [each for each in self.methods() if hasattr(servicer, each.name)]
        handlers = {each.name: _handler(each, getattr(servicer, each.name)) for each in served}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(self.name, handlers),))

    def _call(self, channel: grpc.aio.Channel, method: MethodDescriptor) -> Any:
        make = channel.unary_stream if method.server_streaming else channel.unary_unary
        return make(
            self.path(method.name),
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )


def _handler(method: MethodDescriptor, answer: Any) -> Any:
    streaming = method.server_streaming
    make = grpc.unary_stream_rpc_method_handler if streaming else grpc.unary_unary_rpc_method_handler
    return make(
        answer,
        request_deserializer=GetMessageClass(method.input_type).FromString,
        response_serializer=GetMessageClass(method.output_type).SerializeToString,
    )


REGISTRATION: Final = Service("pluginregistration.Registration")
DRA_V1: Final = Service("k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin")
DRA_V1BETA1: Final = Service("k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin")
HEALTH_V1: Final = Service("v1.DRAResourceHealth")
HEALTH_V1ALPHA1: Final = Service("v1alpha1.DRAResourceHealth")
POD_RESOURCES_V1: Final = Service("v1.PodResourcesLister")
POD_RESOURCES_V1ALPHA1: Final = Service("v1alpha1.PodResourcesLister")
