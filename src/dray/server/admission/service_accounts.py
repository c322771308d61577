"""A pod may only name a service account that exists.

The account `default` is what every pod has that names none; where nobody made one, a pod runs without its token.
"""

from __future__ import annotations

from dray.server.admission.attributes import Attributes
from dray.server.resources import key_prefix

_ACCOUNTS = key_prefix("", "serviceaccounts")


def require(attributes: Attributes) -> None:
    if attributes.kind != ("", "Pod"):
        return
    name = attributes.obj["spec"]["serviceAccountName"]
    if name == "default" or attributes.context.store.get(f"{_ACCOUNTS}{attributes.namespace}/{name}"):
        return
    account = f"{attributes.namespace}/{name}"
    raise attributes.forbid(f'error looking up service account {account}: serviceaccount "{name}" not found')
