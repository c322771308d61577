"""Advice about requests that an API server rejects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dray.client.errors import ApiError

_ADVICE: Final = {
    401: "the server does not accept these credentials: use a current kubeconfig, or another --context",
    403: "ask for a role that allows it, or use another --context",
}
# A status can have several causes; these parts of messages tell them apart.
_CAUSES: Final = {
    "error looking up service account": "create the ServiceAccount, or correct serviceAccountName",
    "exceeded quota": "delete something in the namespace, or ask for a higher quota",
    "no PriorityClass with name": "`dray get priorityclasses` lists the names",
    "violates PodSecurity": "change the securityContext of the pod, or the pod-security label of the namespace",
    "is being terminated": "wait until the namespace is gone, or use another one",
}


def advice_on(error: ApiError) -> str:
    """Returns what to do about a rejected request; empty if there is no advice."""
    return advice_in(str(error)) or _ADVICE.get(error.status, "")


def advice_in(message: str) -> str:
    """Returns what to do about a rejection with this message; empty if there is no advice for the message."""
    return next((advice for cause, advice in _CAUSES.items() if cause in message), "")
