"""ComponentStatus: whether scheduler, controllers and store work, checked on each request.

Parts of this process say so themselves (`/readyz`). Those that run elsewhere hold a Lease, under the names that
kube-scheduler and kube-controller-manager have for it: they work for as long as they renew it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from dray.api.objects import Object
from dray.server import documents, representations, status, verbs
from dray.server.calls import Call
from dray.server.context import Context
from dray.server.requests import Answer, Response
from dray.server.selection import select

_SCHEDULER: Final = "scheduler"
_CONTROLLERS: Final = "controller-manager"
_STORE: Final = "etcd-0"
_LEASES: Final = "/coordination.k8s.io/leases/kube-system/"
_OF_SERVER: Final = "control-plane"


async def get(call: Call) -> Answer:
    form = call.form
    found = _statuses(call.context).get(call.path.name)
    if found is None:
        raise status.not_found("", call.resource.plural, call.path.name)
    return Response(200, await verbs.shown(call, _document(call, call.path.name, found), form))


async def list_all(call: Call) -> Answer:
    form = call.form
    selection = select(call.query, call.resource.fields, call.resource.read)
    values = [_document(call, name, problem) for name, problem in _statuses(call.context).items()]
    chosen = [value for value in values if selection.matches(value)]
    head: Object = {}
    return Response.of(representations.several(call.resource, chosen, head, form, call.context.now(), call.include))


def _document(call: Call, name: str, problem: str) -> bytes:
    condition = {"type": "Healthy", "status": "False" if problem else "True", "message": problem or "ok"}
    made = {"metadata": {"name": name}, "conditions": [condition]}
    return documents.encode(documents.ordered(made, call.resource.kind, call.resource.api_version))


def _statuses(context: Context) -> dict[str, str]:
    """Returns the problem of each component by name; empty for a healthy one."""
    parts = dict(context.health.problems())
    store = parts.pop("etcd", "")
    plane = parts.pop(_OF_SERVER, None)
    if plane is None:
        scheduler, controllers = _lease(context, "kube-scheduler"), _lease(context, "kube-controller-manager")
    else:
        scheduler = parts.pop(_SCHEDULER, "") or plane
        failing = [f"{name}: {problem}" for name, problem in sorted(parts.items()) if problem]
        controllers = plane or "; ".join(failing)
    return {_SCHEDULER: scheduler, _CONTROLLERS: controllers, _STORE: store}


def _lease(context: Context, name: str) -> str:
    record = context.store.get(_LEASES + name)
    spec = documents.decode(record.value)["spec"] if record is not None else {}
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return f"no component holds the Lease kube-system/{name}"
    lasts = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    if datetime.fromisoformat(spec["renewTime"]) + lasts < context.clock():
        return f"the Lease kube-system/{name} was not renewed since {spec['renewTime']}"
    return ""
