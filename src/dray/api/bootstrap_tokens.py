"""Bootstrap tokens: short secrets that let a machine ask for its first certificate, kept as Secrets that expire.

A token is `ID.SECRET`, six and sixteen characters. Its Secret is `bootstrap-token-ID` in kube-system, of a type of its
own, and says what the token is good for, for whom it counts, and until when.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from dray.api.objects import Object, mapping

NAMESPACE: Final = "kube-system"
SECRET_TYPE: Final = "bootstrap.kubernetes.io/token"
USER_PREFIX: Final = "system:bootstrap:"
GROUP: Final = "system:bootstrappers"
SERVER_MACHINE: Final = "system:bootstrappers:dray:server-machine"
"""The group of tokens with which a node may have the host name of the API server's machine."""
ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
ID_LENGTH: Final = 6
SECRET_LENGTH: Final = 16
_PREFIX: Final = "bootstrap-token-"
_TOKEN: Final = re.compile(rf"([a-z0-9]{{{ID_LENGTH}}})\.([a-z0-9]{{{SECRET_LENGTH}}})", re.ASCII)
_GROUP: Final = re.compile(rf"{GROUP}:[a-z0-9:-]{{0,255}}[a-z0-9]", re.ASCII)
_AUTHENTICATION: Final = "usage-bootstrap-authentication"


def parts(token: str) -> tuple[str, str] | None:
    """Returns id and secret of a token; None if the text has another form."""
    found = _TOKEN.fullmatch(token)
    return (found[1], found[2]) if found else None


def secret_name(token_id: str) -> str:
    return _PREFIX + token_id


def secret(
    token_id: str, token_secret: str, *, expiration: str, description: str, groups: Iterable[str] = ()
) -> Object:
    """Returns the Secret that makes a token valid for joining. Nodes that use it are in the further groups."""
    extra = {"auth-extra-groups": ",".join(groups)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret_name(token_id), "namespace": NAMESPACE},
        "type": SECRET_TYPE,
        "stringData": {
            "token-id": token_id,
            "token-secret": token_secret,
            "expiration": expiration,
            "description": description,
            _AUTHENTICATION: "true",
            **(extra if extra["auth-extra-groups"] else {}),
        },
    }


def is_token(obj: Mapping[str, Any]) -> bool:
    return obj.get("type") == SECRET_TYPE


def is_expired(obj: Mapping[str, Any], now: datetime) -> bool:
    """Returns True if the token has expired; an unreadable expiration counts as expired."""
    text = _value(obj, "expiration")
    if not text:
        return False
    try:
        end = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return True
    return now >= (end if end.tzinfo is not None else end.replace(tzinfo=UTC))


def secret_of(obj: Mapping[str, Any], token_id: str, now: datetime) -> str:
    """Returns the secret half of the token; "" if the Secret is not a usable token with this id."""
    usable = (
        is_token(obj)
        and not mapping(obj.get("metadata")).get("deletionTimestamp")
        and _value(obj, "token-id") == token_id
        and _value(obj, _AUTHENTICATION) == "true"
        and not is_expired(obj, now)
    )
    return _value(obj, "token-secret") if usable else ""


def groups_of(obj: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Returns the groups of the token's user; None if a group is not allowed for tokens."""
    extra = [group.strip() for group in _value(obj, "auth-extra-groups").split(",")]
    return (GROUP, *_wanted(extra)) if all(not group or _GROUP.fullmatch(group) for group in extra) else None


def _wanted(groups: Iterable[str]) -> list[str]:
    return sorted({group for group in groups if group})


def _value(obj: Mapping[str, Any], key: str) -> str:
    try:
        return base64.b64decode(str(mapping(obj.get("data")).get(key) or "")).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
