"""The namespaces among given manifests: whether claims in them may have admin access."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.objects import walk
from dray.api.rules import ADMIN_ACCESS_LABEL
from dray.cli.manifests import Manifest


class Namespaces:
    def __init__(self, manifests: Iterable[Manifest]) -> None:
        self._permitted: dict[str, bool] = {}
        for manifest in manifests:
            if (manifest.api_version, manifest.kind) == ("v1", "Namespace"):
                labelled = walk(manifest.document, "metadata", "labels").get(ADMIN_ACCESS_LABEL) == "true"
                self._permitted[manifest.name] = labelled or self._permitted.get(manifest.name, False)

    def permit_admin_access(self, namespace: str) -> bool:
        """Whether the label is there; what is not given is taken to have it."""
        return self._permitted.get(namespace, True)
