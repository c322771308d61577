"""Names of generated claims.

The name looks like one the API server completed from `generateName`, but follows from who it is made for: a controller
that does not know whether its last attempt came through asks for the same name again, and gets no second claim.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

_LONGEST: Final = 57
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX: Final = 5


def generate_name(owner: str, entry: str) -> str:
    """For an entry of the owner's `spec.resourceClaims`; if it is too long, both parts are cut in proportion."""
    full = f"{owner}-{entry}-"
    length = len(full)
    if length <= _LONGEST:
        return full
    # A dot before the hyphen would make the name invalid.
    start = owner[: len(owner) * _LONGEST // length].rstrip(".")
    return f"{start}-{entry[: len(entry) * _LONGEST // length]}"


def claim_name(owner: str, uid: str, entry: str, avoid: str = "") -> str:
    """Another name for each name to avoid: that of a claim that is gone, or that belongs to somebody else."""
    number = int.from_bytes(blake2b(f"{uid}/{entry}/{avoid}".encode(), digest_size=8).digest(), "big")
    suffix = ""
    for _ in range(_SUFFIX):
        number, digit = divmod(number, len(_ALPHABET))
        suffix += _ALPHABET[digit]
    return generate_name(owner, entry) + suffix
