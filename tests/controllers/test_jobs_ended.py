"""Jobs that somebody else declared ended."""

import asyncio

from dray.controllers.jobs.controller import JobController
from dray.testing.cluster import LocalCluster


async def test_an_end_without_a_time_is_no_error():
    async with LocalCluster() as cluster:
        controller = JobController(cluster.environment)
        metadata = {"name": "j", "namespace": "default", "uid": "u", "resourceVersion": "1"}
        job = {"metadata": metadata, "spec": {"ttlSecondsAfterFinished": 0, "template": {"spec": {}}}}
        end = {"type": "Complete", "status": "True", "lastTransitionTime": None}
        assert await asyncio.wait_for(controller._after_end(job, end), 5) is None
