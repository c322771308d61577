"""Expected number of pods, by their controllers: the parallelism of a Job, the scale subresource of others."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.catalogue import split_api_version
from dray.api.objects import Object, controller_of, is_true, metadata_of, spec_of
from dray.client.api import ApiClient
from dray.client.cache import Cache
from dray.client.discovery import discover
from dray.client.errors import ApiError
from dray.client.interface import GroupVersionResource


class UnknownScale(Exception):
    """A pod's controller does not say how many pods it wants."""


class Scales:
    def __init__(self, client: ApiClient, jobs: Cache) -> None:
        self._client = client
        self._jobs = jobs
        self._plurals: dict[tuple[str, str], str] = {}

    async def expected(self, pods: Iterable[Object]) -> tuple[int, bool]:
        """The sum over the pods' controllers, and whether there are pods that nobody controls.

        Raises UnknownScale.
        """
        controllers: dict[str, tuple[Object, Object]] = {}
        has_unmanaged = False
        for pod in pods:
            reference = controller_of(pod)
            if reference is None:
                has_unmanaged = True
            else:
                controllers.setdefault(reference["uid"], (reference, pod))
        return sum([await self._wanted(*each) for each in controllers.values()]), has_unmanaged

    async def _wanted(self, reference: Object, pod: Object) -> int:
        group, version = split_api_version(reference.get("apiVersion") or "")
        namespace = pod["metadata"]["namespace"]
        if (group, reference.get("kind")) == ("batch", "Job"):
            return self._of_job(reference, pod)
        plural = await self._plural(group, reference["kind"])
        if plural is None:
            raise _unknown(pod)
        resource = GroupVersionResource(group, version, plural)
        try:
            scale = await self._client.get(resource, reference["name"], namespace=namespace, subresource="scale")
        except ApiError as error:
            if error.status in (404, 405):
                raise _unknown(pod) from error
            raise
        except ValueError as error:
            # Nothing can have that name or version.
            raise _unknown(pod) from error
        if (owner := metadata_of(scale).get("uid")) and owner != reference["uid"]:
            raise _unknown(pod)
        return int(spec_of(scale).get("replicas") or 0)

    def _of_job(self, reference: Object, pod: Object) -> int:
        job = self._jobs.get(reference["name"], namespace=pod["metadata"]["namespace"])
        if job is None or job["metadata"]["uid"] != reference["uid"]:
            raise _unknown(pod)
        if is_true(job, "Complete") or is_true(job, "Failed"):
            return 0
        parallelism = job["spec"].get("parallelism")
        return 1 if parallelism is None else int(parallelism)

    async def _plural(self, group: str, kind: str) -> str | None:
        """None where no such kind is served."""
        if (group, kind) not in self._plurals:
            found = await discover(self._client)
            self._plurals.update({(each.group, each.kind): each.plural for each in found.preferred})
        return self._plurals.get((group, kind))


def _unknown(pod: Object) -> UnknownScale:
    return UnknownScale(f'found no controllers for pod "{pod["metadata"]["name"]}"')
