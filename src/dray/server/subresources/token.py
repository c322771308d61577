"""`serviceaccounts/token`: a token for a service account."""

from __future__ import annotations

from dray.api.objects import mapping
from dray.server import bodies, status
from dray.server.calls import Call
from dray.server.requests import Answer, document
from dray.server.security.node_restriction import CREATE, Write


async def create(call: Call) -> Answer:
    body = await bodies.read(call.context, call.request)
    if body.get("kind") not in (None, "", "TokenRequest"):
        raise status.bad_request(f"the body is a {body.get('kind')}, not a TokenRequest")
    body["spec"] = mapping(body.get("spec"))
    account = await call.stored()
    write = Write(CREATE, "", "serviceaccounts", "token", call.path.namespace, call.path.name, None, body)
    security = call.context.security
    security.check_write(call.request.user, write)
    try:
        answer = security.request_token(account, body)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise status.bad_request(f"TokenRequest cannot be read: {error}") from error
    return document(answer, 201)
