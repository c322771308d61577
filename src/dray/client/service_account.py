"""In-cluster configuration: the server from the environment, token and CA from the mounted service account volume."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dray.client.endpoint import Endpoint
from dray.client.errors import ConfigError

_VOLUME: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(*, environ: Mapping[str, str] = os.environ, volume: Path = _VOLUME) -> Endpoint:
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigError("not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    try:
        ca = (volume / "ca.crt").read_bytes()
        namespace = (volume / "namespace").read_text().strip()
        (volume / "token").read_bytes()
    except OSError as error:
        raise ConfigError(f"the pod has no service account: {error}") from error
    address = f"[{host}]" if ":" in host else host
    return Endpoint(f"https://{address}:{port}", namespace=namespace, ca=ca, token_file=volume / "token")
