"""The security of one server, put together: what the server core holds and calls.

`open` or `ephemeral` makes it, `load` takes over the stored roles, and `observe` is told of every write from then on,
its `view` with it. What `builtin_roles.bootstrap` finds missing is for the server to create.

For a request: `guard.admit(scope)` says who it is from (400, 401, 403), `authorize` whether they may (403), and
`check_write` whether they may write this very object (403). Kinds that are answered and not stored go to `review`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from dray.api.objects import Object
from dray.server import documents, status
from dray.server.authorization import ADMIN, Access, Authorizer, User, forbidden
from dray.server.resources import Resource, key_prefix
from dray.server.security import access_reviews, token_requests
from dray.server.security.authentication import Authenticator, BootstrapTokens, Tokens, load_token, new_token
from dray.server.security.authority import KUBELET_SERVING, Authority, Clock, utc_now
from dray.server.security.builtin_roles import NODE_RULES, read_rules
from dray.server.security.certificates import server_context
from dray.server.security.escalation import EscalationCheck
from dray.server.security.guard import Guard
from dray.server.security.node_authorizer import ClusterView, NodeAuthorizer
from dray.server.security.node_restriction import DELETE, Write, restrict
from dray.server.security.policy import GROUP, KINDS, RBAC, Authorizers, Policy
from dray.server.security.rules import PolicyRule
from dray.server.security.service_account_tokens import TokenIssuer
from dray.server.security.stored_view import StoredView
from dray.store.interface import Store

# Review kinds: a POST is answered and nothing is stored.
REVIEWS = (
    "SelfSubjectAccessReview",
    "SubjectAccessReview",
    "LocalSubjectAccessReview",
    "SelfSubjectRulesReview",
    "SelfSubjectReview",
    "TokenReview",
)
# Key prefixes of the writes that `Security.observe` needs.
OBSERVED = (key_prefix("", "pods"), *(key_prefix(GROUP, f"{kind.lower()}s") for kind in KINDS))
_KIND_OF = {kind.lower() + "s": kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Security:
    """Security of one server: certificate authorities, authentication and authorization.

    `authority` is None for plain HTTP on loopback, where every user without credentials is the administrator.
    `node_authority` issues client certificates of nodes, and the one that the server shows to nodes; they always use
    TLS. `serving_authority` issues serving certificates of nodes. Only the server trusts it, so none of them can stand
    for the API server, whatever its names and addresses.
    """

    view: ClusterView
    policy: Policy
    authorizer: Authorizer
    guard: Guard
    tokens: Tokens
    issuer: TokenIssuer
    admin_token: str
    authority: Authority | None
    node_authority: Authority
    serving_authority: Authority

    @classmethod
    def open(cls, directory: Path, view: ClusterView, *, plain: bool = False, clock: Clock = utc_now) -> Security:
        """Opens keys, certificates and the admin's token in a directory."""
        authority = serving = None
        if not plain:
            authority = Authority.open(directory, clock=clock)
            serving = Authority.open(directory / "kubelet-serving", name=KUBELET_SERVING, clock=clock)
        issuer = TokenIssuer.open(directory, view, clock=clock)
        return _compose(view, authority, serving, issuer, load_token(directory), clock=clock)

    @classmethod
    def ephemeral(cls, view: ClusterView, *, plain: bool = False, clock: Clock = utc_now) -> Security:
        """Makes everything in memory: for tests, and for servers without a directory."""
        authority = None if plain else Authority.ephemeral(clock=clock)
        return _compose(view, authority, None, TokenIssuer(view, clock=clock), new_token(), clock=clock)

    def load(self, store: Store) -> None:
        """Loads the stored roles and bindings; call it before the first request."""
        for kind in KINDS:
            records = store.list(key_prefix(GROUP, f"{kind.lower()}s")).records
            self.policy.replace(kind, [documents.decode(record.value) for record in records])

    def observe(self, resource: Resource, key: str, obj: Object | None) -> None:
        """Observes writes of the server's context, before they are acknowledged."""
        if resource.group != GROUP:
            if isinstance(self.view, StoredView):
                self.view.observe(resource, key, obj)
        elif obj is not None:
            self.policy.put(resource.kind, obj)
        else:
            *_, namespace, name = key.split("/")
            self.policy.remove(resource.kind, namespace if resource.namespaced else "", name)

    def server_context(self, names: Iterable[str] = ()) -> ssl.SSLContext:
        if self.authority is None:
            raise ValueError("a server that speaks plain HTTP has no certificate")
        return server_context(self.authority, names)

    def authorize(self, user: User, access: Access) -> str:
        """Returns why the access is allowed, for the audit log; raises a 403 if it is not."""
        decision = self.authorizer.authorize(user, access)
        if not decision.allowed:
            raise forbidden(user, access, decision.reason)
        return decision.reason

    def check_write(self, user: User, write: Write) -> None:
        """Checks the content of a write: node restriction and escalation of permissions. Raises a 403 or 404."""
        why = restrict(user, write, self.view, self.authorizer)
        if why is not None:
            raise status.forbidden(write.group, write.resource, write.name, why)
        kind = _KIND_OF.get(write.resource) if write.group == GROUP else None
        if kind is not None and write.new is not None and write.operation != DELETE:
            check = EscalationCheck(self.policy, self.authorizer)
            check.check(user, kind, write.new, write.old, namespace=write.namespace)

    def review(self, kind: str, user: User, body: Object, namespace: str = "") -> Object:
        """Returns the body of a review with its status. The caller has authorized the creation of the review."""
        answers: dict[str, Callable[[], Object]] = {
            "SelfSubjectAccessReview": lambda: access_reviews.review_self_access(self.authorizer, user, body),
            "SubjectAccessReview": lambda: access_reviews.review_access(self.authorizer, body),
            "LocalSubjectAccessReview": lambda: access_reviews.review_local_access(self.authorizer, body, namespace),
            "SelfSubjectRulesReview": lambda: access_reviews.review_self_rules(self.policy, user, body),
            "SelfSubjectReview": lambda: token_requests.review_self(user),
            "TokenReview": lambda: token_requests.review_token(self.tokens, body, self.issuer.issuer),
        }
        return answers[kind]()

    def request_token(self, account: Object, body: Object) -> Object:
        """Answers a POST to the `token` subresource of a service account."""
        return token_requests.request_token(self.issuer, self.view, account, body)


def _compose(
    view: ClusterView,
    authority: Authority | None,
    serving: Authority | None,
    issuer: TokenIssuer,
    admin_token: str,
    *,
    clock: Clock,
) -> Security:
    """Makes authorities that are not given in memory."""
    policy = Policy()
    nodes = NodeAuthorizer(view, map(PolicyRule.read, read_rules(NODE_RULES)))
    authorizer = Authorizers(nodes, RBAC(policy))
    tokens = Tokens.for_admin(admin_token, issuer, BootstrapTokens(view, clock=clock))
    plain = authority is None
    of_nodes = authority or Authority.ephemeral(clock=clock)
    serving = serving or Authority.ephemeral(name=KUBELET_SERVING, clock=clock)
    authenticator = Authenticator(tokens, trusted=ADMIN if plain else None, clock=clock)
    guard = Guard(authenticator, authorizer, plain=plain)
    return Security(view, policy, authorizer, guard, tokens, issuer, admin_token, authority, of_nodes, serving)
