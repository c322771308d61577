"""Impersonation (`kubectl --as`), for those who may.

Each part of the wanted identity is a permission of its own: the verb `impersonate` on the user or service account, on
every group, on the uid and on every extra value. A user who may act as `jane` cannot bring along `system:masters`, and
nothing of the sender's own identity is carried over.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.server.authorization import ANONYMOUS, AUTHENTICATED, Access, Authorizer, User
from dray.server.security import users
from dray.server.security.credentials import Impersonation
from dray.server.security.refusals import forbidden

_AUTHENTICATION = "authentication.k8s.io"


def impersonate(user: User, wanted: Impersonation, authorizer: Authorizer) -> User:
    """Whom the request is from; raises a 403 that names the permission the sender lacks."""
    if not wanted.requested:
        return user
    for access in _permissions(wanted):
        decision = authorizer.authorize(user, access)
        if not decision.allowed:
            raise forbidden(user, access, decision.reason)
    return User(wanted.user, _groups(wanted), wanted.uid, wanted.extra)


def _permissions(wanted: Impersonation) -> Iterator[Access]:
    account = users.service_account_of(wanted.user)
    if account is not None:
        yield Access("impersonate", "", "serviceaccounts", "", *account)
    else:
        yield Access("impersonate", "", "users", name=wanted.user)
    for group in wanted.groups:
        yield Access("impersonate", "", "groups", name=group)
    if wanted.uid:
        yield Access("impersonate", _AUTHENTICATION, "uids", name=wanted.uid)
    for key, values in wanted.extra.items():
        for value in values:
            yield Access("impersonate", _AUTHENTICATION, "userextras", key, name=value)


def _groups(wanted: Impersonation) -> tuple[str, ...]:
    groups = wanted.groups
    account = users.service_account_of(wanted.user)
    if account is not None and not groups:
        groups = users.service_account_groups(account[0])
    if AUTHENTICATED in groups or users.UNAUTHENTICATED in groups:
        return groups
    return (*groups, users.UNAUTHENTICATED if wanted.user == ANONYMOUS.name else AUTHENTICATED)
