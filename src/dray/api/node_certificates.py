"""Records of node certificates: which key the name of a node was certified for, and until when.

A token lets machines join under names of their choice. Without a record two machines could get a certificate of one
name before its Node exists, and each could act as the other. The server writes a ConfigMap in kube-system per name
before it signs, and deletes it with the Node. It outlives the CertificateSigningRequest, which is deleted soon.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dray.api.names import is_subdomain
from dray.api.objects import Object, mapping

NAMESPACE: Final = "kube-system"
_PREFIX: Final = "node-certificate."
_NODE: Final = "node"
_KEY: Final = "publicKeySHA256"
_EXPIRES: Final = "expires"


def is_record(found: Mapping[str, Any]) -> bool:
    return str(mapping(found.get("metadata")).get("name")).startswith(_PREFIX) and _KEY in mapping(found.get("data"))


def record_name(node: str) -> str:
    """Returns the name of the ConfigMap; long node names are replaced by a hash."""
    name = _PREFIX + node
    return name if is_subdomain(name) else _PREFIX + hashlib.sha256(node.encode()).hexdigest()


def record(node: str, key_hash: str, expires: str) -> Object:
    data = {_NODE: node, _KEY: key_hash, _EXPIRES: expires}
    metadata = {"name": record_name(node), "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def is_for(found: Mapping[str, Any], key_hash: str) -> bool:
    """Whether the name was certified for this key, so that a machine asks for its own name again."""
    return mapping(found.get("data")).get(_KEY) == key_hash


def has_expired(found: Mapping[str, Any], now: datetime) -> bool:
    """Returns True if the record has expired; an unreadable time has not."""
    try:
        return datetime.fromisoformat(str(mapping(found.get("data")).get(_EXPIRES))) <= now
    except (ValueError, TypeError):
        return False


def node_of(found: Mapping[str, Any]) -> str:
    return str(mapping(found.get("data")).get(_NODE))


def refusal(node: str, found: Mapping[str, Any] | None, *, node_exists: bool, key_hash: str, now: datetime) -> str:
    """Returns why a machine with a token does not get the name of the node; empty if it gets the name."""
    if found is not None and is_for(found, key_hash):
        return ""
    if node_exists:
        return f"Node {node} exists already: kubectl delete node {node} if its machine is gone"
    if found is None or has_expired(found, now):
        return ""
    until = mapping(found.get("data")).get(_EXPIRES)
    return (
        f"another machine was given the name {node} (until {until}): if that machine is gone, "
        f"kubectl delete configmap -n {NAMESPACE} {record_name(node)}"
    )
