"""Answers in the form that the client wants: they are made as JSON, and written anew as YAML or protobuf."""

from __future__ import annotations

from dray.server import negotiation, protobuf_answers, representations
from dray.server.requests import JSON, Answer, Request, Response
from dray.server.worker import AT_ONCE, Worker


async def written(worker: Worker, request: Request, answer: Answer) -> Answer:
    """Raises an `ApiError` if there is too much to do at once."""
    media = negotiation.media(request.headers.get("accept", ""))
    if media == JSON or not isinstance(answer, Response) or answer.content_type != JSON:
        return answer
    size = len(answer.body) if answer.rest is None else AT_ONCE + 1
    if media == negotiation.YAML:
        answer.body = await worker.run(size, lambda: representations.as_yaml(answer.whole()))
    else:
        body = await worker.run(size, lambda: protobuf_answers.written(answer.whole()))
        if body is None:
            return answer
        answer.body = body
    answer.content_type = media
    return answer
