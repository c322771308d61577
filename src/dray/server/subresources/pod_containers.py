"""The container of a pod that `log`, `exec` and `attach` are about, and the node that runs it."""

from __future__ import annotations

from dray.api.objects import Object, mappings
from dray.server import status
from dray.server.calls import Call
from dray.server.kubelets.client import Endpoint, endpoint_of


def container_of(call: Call, pod: Object) -> str:
    """The one that was asked for, or the only one; raises a 400."""
    spec, name = pod["spec"], call.path.name
    wanted = call.query.get("container", "")
    if wanted:
        if wanted not in (*_names(spec, "initContainers"), *_names(spec, "containers"), *_names(spec, _EPHEMERAL)):
            raise status.bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    names = _names(spec, "containers")
    if len(names) == 1:
        return names[0]
    message = f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
    if inits := _names(spec, "initContainers"):
        message += f" or one of the init containers: [{' '.join(inits)}]"
    if ephemerals := _names(spec, _EPHEMERAL):
        message += f" or one of the ephemeral containers: [{' '.join(ephemerals)}]"
    raise status.bad_request(message)


def node_of(call: Call, pod: Object) -> Endpoint:
    node = pod["spec"].get("nodeName", "")
    if not node:
        raise status.bad_request(f"pod {call.path.name} does not have a host assigned")
    return endpoint_of(call.context, node)


def _names(spec: Object, member: str) -> list[str]:
    return [str(each["name"]) for each in mappings(spec.get(member))]


_EPHEMERAL = "ephemeralContainers"
