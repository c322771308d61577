"""`serviceaccounts/token`: a token for a service account."""

from __future__ import annotations

from dray.api.objects import mapping
from dray.server import bodies, status
from dray.server.admission import parts
from dray.server.calls import Call
from dray.server.parameters import write_options
from dray.server.part_kinds import TOKEN_REQUEST
from dray.server.requests import Answer, document
from dray.server.security.node_restriction import CREATE, Write
from dray.server.security.token_requests import DEFAULT_SECONDS


async def create(call: Call) -> Answer:
    options = write_options(call.request, call.query, "CreateOptions")
    body = await bodies.read(call.context, call.request, strict=options.strict)
    spec = {"expirationSeconds": DEFAULT_SECONDS, **mapping(body.get("spec"))}
    body = await parts.admit(call.write(options, "create"), CREATE, {**body, "spec": spec}, TOKEN_REQUEST)
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
