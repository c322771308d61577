"""Clients that differ from the one they are made of: a base for those that fail, and one of an older server."""

from dray.client.errors import ApiError


class Passing:
    """Does what another client does, except for what a subclass defines."""

    def __init__(self, client):
        self._client = client

    def __getattr__(self, name):
        return getattr(self._client, name)


def without_pod_groups(client):
    """Lets the client find a server that does not serve PodGroups; to list them nevertheless fails the test."""
    request, listed = client.request, client.list_all

    async def older(method, path, **kwargs):
        if path.startswith("/apis/scheduling.k8s.io"):
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return await request(method, path, **kwargs)

    async def lists(resource, **kwargs):
        assert resource.plural != "podgroups"
        return await listed(resource, **kwargs)

    client.request, client.list_all = older, lists
