"""Admission of Jobs: their selector is made of the name and the uid, which an object has from here on."""

from __future__ import annotations

from dray.api.job_defaults import generate_selector
from dray.api.names import generate_base
from dray.api.validation import jobs
from dray.server import status
from dray.server.admission.attributes import Attributes


def select_pods(attributes: Attributes) -> None:
    if attributes.kind != ("batch", "Job"):
        return
    metadata = attributes.obj["metadata"]
    if not metadata.get("name"):
        metadata["name"] = generate_base(metadata["generateName"]) + attributes.context.new_suffix()
    generate_selector(attributes.obj)
    problems = list(jobs.validate_generated(attributes.obj))
    if problems:
        raise status.invalid("Job", "batch", metadata["name"], problems)
