from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from dray.server.security import jwt
from dray.server.security.certificates import new_key
from dray.server.security.jwt import TokenError

KEY = new_key()
KEYS = {jwt.key_id(KEY.public_key()): KEY.public_key()}


def encode(value: Any) -> str:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def header(**changes: Any) -> dict[str, Any]:
    found = {"alg": "ES256", "kid": jwt.key_id(KEY.public_key()), "typ": "JWT", **changes}
    return {name: value for name, value in found.items() if value is not None}


def test_what_was_signed_is_read_back() -> None:
    token = jwt.sign({"sub": "jane"}, KEY)
    assert json.loads(jwt.verify(token, KEYS)) == {"sub": "jane"}


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", "HS256", "RS256", "ES384", "es256", "", None])
@pytest.mark.parametrize("signed", [True, False])
def test_the_token_does_not_choose_the_algorithm(alg: str | None, signed: bool) -> None:
    claims = jwt.sign({"sub": "jane"}, KEY).split(".")
    signature = claims[2] if signed else ""
    with pytest.raises(TokenError):
        jwt.verify(f"{encode(header(alg=alg))}.{claims[1]}.{signature}", KEYS)


def test_the_public_key_is_no_shared_secret() -> None:
    public = KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    signed = f"{encode(header(alg='HS256'))}.{encode({'sub': 'root'})}"
    mac = hmac.new(public, signed.encode(), hashlib.sha256).digest()
    with pytest.raises(TokenError):
        jwt.verify(f"{signed}.{encode(mac)}", KEYS)


@pytest.mark.parametrize(
    "changes",
    [
        {"kid": "other"},
        {"kid": None},
        {"kid": ["x"]},
        {"crit": ["exp"]},
        {"jwk": {}},
        {"jku": "http://x"},
        {"typ": "x"},
    ],
)
def test_headers_that_are_not_ours_are_refused(changes: dict[str, Any]) -> None:
    _, claims, signature = jwt.sign({"sub": "jane"}, KEY).split(".")
    with pytest.raises(TokenError):
        jwt.verify(f"{encode(header(**changes))}.{claims}.{signature}", KEYS)


def test_changed_claims_break_the_signature() -> None:
    head, _, signature = jwt.sign({"sub": "jane"}, KEY).split(".")
    with pytest.raises(TokenError, match="signature is wrong"):
        jwt.verify(f"{head}.{encode({'sub': 'root'})}.{signature}", KEYS)


def test_another_key_under_our_id_does_not_help() -> None:
    other = new_key()
    signed = f"{encode(header())}.{encode({'sub': 'root'})}"
    _, _, signature = jwt.sign({"sub": "root"}, other).split(".")
    with pytest.raises(TokenError):
        jwt.verify(f"{signed}.{signature}", KEYS)


@pytest.mark.parametrize("raw", [b"", b"\0" * 64, b"\0" * 63, b"\xff" * 64, b"\0" * 65])
def test_signatures_that_cannot_be(raw: bytes) -> None:
    head, claims, _ = jwt.sign({"sub": "jane"}, KEY).split(".")
    with pytest.raises(TokenError):
        jwt.verify(f"{head}.{claims}.{encode(raw)}", KEYS)


@pytest.mark.parametrize("text", ["", ".", "..", "a.b", "a.b.c.d", "a.b.c", "=.=.=", " a.b.c", "ä.b.c", "a.b.c\n"])
def test_texts_that_are_no_tokens(text: str) -> None:
    with pytest.raises(TokenError):
        jwt.verify(text, KEYS)


def test_a_token_has_one_spelling() -> None:
    token = jwt.sign({"sub": "jane"}, KEY)
    for spelling in (token + "=", token + "==", token.replace("-", "+").replace("_", "/") + "=", token + "\n"):
        with pytest.raises(TokenError):
            jwt.verify(spelling, KEYS)
    # 64 bytes leave four bits of the last character unused.
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet.index(token[-1])
    with pytest.raises(TokenError):
        jwt.verify(token[:-1] + alphabet[last | 1], KEYS)


def test_length_is_bounded() -> None:
    with pytest.raises(TokenError):
        jwt.verify("a" * jwt.MAX_LENGTH + ".b.c", KEYS)
