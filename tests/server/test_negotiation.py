"""Accept headers as clients send them."""

import pytest

from dray.server import negotiation
from dray.server.negotiation import JSON, PROTOBUF, YAML, Form
from dray.server.status import ApiError

METADATA = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
TABLE = "as=Table;g=meta.k8s.io;v=v1"


@pytest.mark.parametrize(
    ("accept", "media", "form"),
    [
        ("", JSON, Form.OBJECT),
        ("*/*", JSON, Form.OBJECT),
        ("application/*", JSON, Form.OBJECT),
        ("text/html, */*", JSON, Form.OBJECT),
        ("application/yaml", YAML, Form.OBJECT),
        (f"{PROTOBUF},{JSON}", PROTOBUF, Form.OBJECT),
        (f"{PROTOBUF}, */*", PROTOBUF, Form.OBJECT),
        (f"*/*, {PROTOBUF}", PROTOBUF, Form.OBJECT),
        (f"{JSON}, {PROTOBUF}", JSON, Form.OBJECT),
        (f"{JSON};q=0.5, {PROTOBUF};q=0.9", PROTOBUF, Form.OBJECT),
        (f"{JSON};q=nonsense, {PROTOBUF};q=0.9", JSON, Form.OBJECT),
        (f"application/cbor, {PROTOBUF};q=0.1", PROTOBUF, Form.OBJECT),
        (f"{PROTOBUF};stream=watch", PROTOBUF, Form.OBJECT),
        (f"{PROTOBUF};stream=other, {JSON}", JSON, Form.OBJECT),
        (f"application/yaml;stream=watch, {JSON};stream=watch", JSON, Form.OBJECT),
        # Tables have no message.
        (f"{PROTOBUF};{TABLE},{JSON};{TABLE},{JSON}", JSON, Form.TABLE),
        (f"{PROTOBUF};{TABLE},{PROTOBUF}", PROTOBUF, Form.OBJECT),
        (f"{PROTOBUF};{METADATA},{JSON};{METADATA},{JSON}", PROTOBUF, Form.METADATA),
        (f"{JSON};as=Table;v=v1;g=example.com,{JSON}", JSON, Form.OBJECT),
        (f"{JSON};v=v1,application/yaml", YAML, Form.OBJECT),
    ],
)
def test_of_built_in_kinds(accept: str, media: str, form: Form) -> None:
    assert negotiation.accepted(accept) == (media, form)
    assert negotiation.media(accept) == media


@pytest.mark.parametrize(
    ("accept", "media", "form"),
    [
        (f"{PROTOBUF},{JSON}", JSON, Form.OBJECT),
        (f"{PROTOBUF},application/yaml", YAML, Form.OBJECT),
        (f"{PROTOBUF};{METADATA},{JSON};{METADATA}", PROTOBUF, Form.METADATA),
    ],
)
def test_of_custom_kinds(accept: str, media: str, form: Form) -> None:
    assert negotiation.accepted_of_custom(accept) == (media, form)


@pytest.mark.parametrize(
    "accept", ["text/html", "application/cbor", "image/*", f"{JSON};as=Poem;g=meta.k8s.io;v=v1", f"{PROTOBUF};{TABLE}"]
)
def test_what_is_not_spoken(accept: str) -> None:
    with pytest.raises(ApiError, match="only the following media types") as no:
        negotiation.accepted(accept)
    assert no.value.code == 406
    assert negotiation.media(accept) == JSON


def test_custom_kinds_have_no_messages() -> None:
    with pytest.raises(ApiError):
        negotiation.accepted_of_custom(PROTOBUF)


def test_a_watch_is_not_written_as_yaml() -> None:
    negotiation.check_stream(JSON)
    with pytest.raises(ApiError, match="application/json;stream=watch"):
        negotiation.check_stream(YAML)


def test_a_review_has_no_table(api):
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    for accept, code in ((f"{JSON};{TABLE}", 406), (f"{JSON};{TABLE}, {JSON}", 201), (JSON, 201)):
        assert api.ask("POST", path, body, accept=accept)[0] == code
