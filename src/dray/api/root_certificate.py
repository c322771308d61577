"""Names of the ConfigMap with the certificate that pods trust when they speak with the API server."""

from __future__ import annotations

from typing import Final

NAME: Final = "kube-root-ca.crt"
KEY: Final = "ca.crt"
NAMESPACE: Final = "kube-system"
"""The namespace where the server writes the ConfigMap; other namespaces have copies."""
