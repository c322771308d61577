"""`exec`, `attach` and `portforward`: answered by the node of the pod."""

from __future__ import annotations

from dray.server import status
from dray.server.calls import Call
from dray.server.requests import Answer
from dray.server.subresources.pod_containers import container_of, node_of


async def forward(call: Call) -> Answer:
    pod = call.stored()
    if call.path.subresource != "portforward":
        container_of(call, pod)
    endpoint = node_of(call, pod)
    raise status.not_implemented(f"{call.path.subresource} of a pod on node {endpoint.node} is not served yet")
