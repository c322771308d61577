"""Cluster info: where a cluster's server is and which authority it has, in a ConfigMap that everybody may read.

A machine that joins reads it before it trusts anybody, over a connection that is not verified, and believes it only if
the key of the authority has the hash that came with the token. It sends nothing in return: no token goes out before
the server is known. The ConfigMap and the form of the hash are those of kubeadm.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from dray.api.objects import mapping, mappings
from dray.client.errors import ConfigError

NAMESPACE: Final = "kube-public"
NAME: Final = "cluster-info"
PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"
KEY: Final = "kubeconfig"
_ALGORITHM: Final = "sha256:"


class ClusterInfo(NamedTuple):
    """Address and certificate authority of a cluster; `authority` is the certificate as PEM."""

    server: str
    authority: bytes


def key_hash(authority: bytes) -> str:
    """Returns the hash of the authority's public key, which stays the same when the certificate is renewed."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = x509.load_pem_x509_certificate(authority).public_key()
    return _ALGORITHM + hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def read(config_map: Mapping[str, Any]) -> ClusterInfo:
    """Reads the ConfigMap of the cluster info. Raises ConfigError."""
    import base64
    import binascii

    import yaml

    try:
        document = mapping(yaml.safe_load(str(mapping(config_map.get("data")).get(KEY) or "")))
        cluster = mapping(mappings(document.get("clusters"))[0].get("cluster"))
        authority = base64.b64decode(str(cluster["certificate-authority-data"]), validate=True)
        return ClusterInfo(str(cluster["server"]), authority)
    except (yaml.YAMLError, IndexError, KeyError, binascii.Error) as error:
        raise ConfigError(f"{NAMESPACE}/{NAME} of the server names no cluster: {error}") from error


def check(info: ClusterInfo, expected: str) -> None:
    """Raises ConfigError unless the authority's key has that hash."""
    try:
        found = key_hash(info.authority)
    except ValueError as error:
        raise ConfigError(f"the authority that the server shows cannot be read: {error}") from error
    if not hmac.compare_digest(found, expected.lower()):
        raise ConfigError(
            f"the server's authority has the hash {found}, not {expected}: this is another cluster, "
            "or somebody in between; take the line that dray join-token prints"
        )
