"""The first contact of a component with its server: it is retried until the server answers and agrees."""

import logging

import pytest

from dray.client.errors import ApiError, ConfigError, ConnectionFailed
from dray.client.first_contact import FirstContact
from dray.client.retries import Retries

REFUSED = ApiError(403, "Forbidden", "/version: clusterrole system:discovery not found")
AWAY = ConnectionFailed("GET /version: Connection refused", sent=False, cause="Connection refused")


def contact(pauses):
    async def sleep(seconds):
        pauses.append(seconds)

    return FirstContact("https://server:6443", retries=Retries(sleep=sleep))


def answers(*errors):
    left = list(errors)
    asked = []

    async def question():
        asked.append(1)
        if left:
            raise left.pop(0)

    return question, asked


async def test_a_server_that_is_away_and_then_refuses_is_asked_until_it_agrees(caplog):
    caplog.set_level(logging.WARNING)
    pauses = []
    reaching = contact(pauses)
    question, asked = answers(AWAY, AWAY, REFUSED, REFUSED, REFUSED)
    await reaching.reach(question)
    assert len(asked) == 6
    assert len(pauses) == 5
    assert reaching.trouble == ""
    refused, agreed = [record.getMessage() for record in caplog.records]
    assert refused.startswith("https://server:6443 refuses: /version: clusterrole system:discovery not found")
    assert agreed.startswith("https://server:6443 allows the requests now, after ")


async def test_the_trouble_names_what_the_server_said_last():
    said = []
    reaching = FirstContact("https://server:6443", retries=Retries(sleep=lambda _: collect()))

    async def collect():
        said.append(reaching.trouble)

    question, _ = answers(AWAY, REFUSED)
    await reaching.reach(question)
    assert said == [
        "https://server:6443 does not answer: Connection refused",
        "https://server:6443 refuses: /version: clusterrole system:discovery not found",
    ]


async def test_a_kubeconfig_that_cannot_be_used_is_not_tried_again():
    pauses = []
    question, asked = answers(ConfigError("certificate verify failed"))
    with pytest.raises(ConfigError):
        await contact(pauses).reach(question)
    assert (len(asked), pauses) == (1, [])


async def test_each_question_is_asked_once_it_has_an_answer_to_the_one_before():
    first, asked_first = answers(AWAY)
    second, asked_second = answers(REFUSED)
    await contact([]).reach(first, second)
    assert (len(asked_first), len(asked_second)) == (2, 2)
