"""The ServiceAccount controller: every active namespace has a service account `default`."""

from __future__ import annotations

from typing import Final

from dray.api.catalogue import built_in
from dray.controllers.environment import Environment
from dray.controllers.namespace_objects import NamespaceObjectController

ACCOUNT: Final = "default"


class ServiceAccountController(NamespaceObjectController):
    def __init__(self, environment: Environment) -> None:
        super().__init__(environment, "service accounts", built_in("v1", "ServiceAccount"), ACCOUNT)
