"""Aggregated ClusterRoles show what they collect."""

from tests.server.api import MERGE, serving

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
TO_VIEW = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
WIDGETS = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get", "list"]}


def rules(api, name):
    return api.get(f"{ROLES}/{name}")["rules"] or []


def test_the_built_in_roles_have_their_rules_from_the_start(api):
    parts = rules(api, "system:aggregate-to-view")
    assert parts
    assert rules(api, "view") == parts
    assert len(rules(api, "admin")) > len(rules(api, "edit")) > len(parts)


def test_rules_come_and_go_with_the_roles_that_bring_them(api):
    api.create(ROLES, {"metadata": {"name": "widgets", "labels": TO_VIEW}, "rules": [WIDGETS]})
    api.wait()
    assert WIDGETS in rules(api, "view")
    api.patch(f"{ROLES}/widgets", {"metadata": {"labels": None}}, MERGE)
    api.wait()
    assert WIDGETS not in rules(api, "view")


def test_a_role_of_ones_own_collects_too(api):
    selector = {"clusterRoleSelectors": [{"matchLabels": {"team": "a"}}]}
    api.create(ROLES, {"metadata": {"name": "all"}, "aggregationRule": selector, "rules": [WIDGETS]})
    api.wait()
    assert api.get(f"{ROLES}/all")["rules"] is None
    api.create(ROLES, {"metadata": {"name": "one", "labels": {"team": "a"}}, "rules": [WIDGETS]})
    api.wait()
    assert rules(api, "all") == [WIDGETS]


def test_a_server_that_starts_again_writes_nothing_new():
    with serving() as api:
        before = api.context.store.revision
        api.runner.run(api.server._roles.start())
        assert api.context.store.revision == before
