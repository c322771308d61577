"""JSON web tokens, the one kind that service accounts use: ES256, compact form.

The algorithm is not a choice of the token: a header that names another, or `none`, or that carries `crit`, is refused
before anything is verified. Tokens are read strictly: no padding, no foreign characters, a bounded length.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

MAX_LENGTH = 16 * 1024
_ALGORITHM = "ES256"
_HALF = 32
_FORM = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)


class TokenError(Exception):
    """Raised for a token that is not ours or no longer valid; the text never contains any of it."""


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    alg: str
    kid: str
    typ: str = "JWT"


def key_id(key: ec.EllipticCurvePublicKey) -> str:
    encoded = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _encode(hashlib.sha256(encoded).digest())


def looks_like_one(token: str) -> bool:
    return token.count(".") == 2


def sign(claims: dict[str, Any], key: ec.EllipticCurvePrivateKey) -> str:
    header = msgspec.json.encode({"alg": _ALGORITHM, "kid": key_id(key.public_key()), "typ": "JWT"})
    signed = f"{_encode(header)}.{_encode(msgspec.json.encode(claims))}"
    r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{_encode(r.to_bytes(_HALF, 'big') + s.to_bytes(_HALF, 'big'))}"


def verify(token: str, keys: dict[str, ec.EllipticCurvePublicKey]) -> bytes:
    """Returns the encoded claims of a token that one of the keys has signed; does not check the claims."""
    if len(token) > MAX_LENGTH or _FORM.fullmatch(token) is None:
        raise TokenError("not a token of the form header.claims.signature")
    signed, _, signature = token.rpartition(".")
    header, _, claims = signed.partition(".")
    key = keys.get(_key_named_by(_decode(header)))
    if key is None:
        raise TokenError("signed with an unknown key")
    raw = _decode(signature)
    if len(raw) != 2 * _HALF:
        raise TokenError("the signature has the wrong length")
    encoded = encode_dss_signature(int.from_bytes(raw[:_HALF], "big"), int.from_bytes(raw[_HALF:], "big"))
    try:
        key.verify(encoded, signed.encode(), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature as error:
        raise TokenError("the signature is wrong") from error
    return _decode(claims)


def _key_named_by(header: bytes) -> str:
    try:
        read = msgspec.json.decode(header, type=_Header)
    except msgspec.DecodeError as error:
        raise TokenError("the header is not that of a service account token") from error
    if read.alg != _ALGORITHM or read.typ != "JWT":
        raise TokenError(f"the algorithm must be {_ALGORITHM}")
    return read.kid


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise TokenError("not base64url") from error
    # The last character may carry bits that decoding drops: one token would have several spellings.
    if _encode(content) != text:
        raise TokenError("not base64url in its one form")
    return content
