"""Jobs as clients see them: the selector that is made for them, and what they may not bring along."""

import pytest

from tests.server.api import MERGE

JOBS = "/apis/batch/v1/namespaces/default/jobs"
UID = "batch.kubernetes.io/controller-uid"


def job(name="j", labels=None, **spec):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "i"}]}}
    if labels:
        template["metadata"] = {"labels": labels}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def test_a_selector_is_made(api):
    made = api.create(JOBS, job())
    uid = made["metadata"]["uid"]
    labels = {UID: uid, "controller-uid": uid, "job-name": "j", "batch.kubernetes.io/job-name": "j"}
    assert made["spec"]["selector"] == {"matchLabels": {UID: uid}}
    assert made["spec"]["template"]["metadata"]["labels"] == labels
    assert made["metadata"]["labels"] == labels
    assert api.get(f"{JOBS}/j") == made


def test_a_generated_name_is_in_the_labels(api):
    body = job()
    body["metadata"] = {"generateName": "j-"}
    made = api.create(JOBS, body)
    assert made["metadata"]["name"].startswith("j-")
    assert made["spec"]["template"]["metadata"]["labels"]["job-name"] == made["metadata"]["name"]


def test_labels_of_ones_own_are_kept(api):
    made = api.create(JOBS, job(labels={"app": "x"}))
    assert made["metadata"]["labels"] == {"app": "x"}
    assert set(made["spec"]["template"]["metadata"]["labels"]) > {"app", "job-name"}


@pytest.mark.parametrize(("label", "value"), [("job-name", "other"), (UID, "1")])
def test_labels_that_belong_to_the_server(api, label, value):
    code, reason, fields = api.refusal("POST", JOBS, job(labels={label: value}))
    assert (code, reason) == (422, "Invalid")
    assert f"spec.template.metadata.labels[{label}]" in fields


def test_a_selector_of_ones_own_must_be_announced(api):
    selector = {"matchLabels": {"app": "x"}}
    assert "spec.selector" in api.refusal("POST", JOBS, job(labels={"app": "x"}, selector=selector))[2]
    made = api.create(JOBS, job(labels={"app": "x"}, selector=selector, manualSelector=True))
    assert made["spec"]["selector"] == selector
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "x"}


def test_a_job_can_be_suspended_and_scaled(api):
    api.create(JOBS, job(completions=4))
    made = api.patch(f"{JOBS}/j", {"spec": {"suspend": True, "parallelism": 2}}, MERGE)
    assert (made["spec"]["suspend"], made["metadata"]["generation"]) == (True, 2)
    body = {"spec": {"completions": 5}}
    assert api.refusal("PATCH", f"{JOBS}/j", body, content_type=MERGE) == (422, "Invalid", ["spec.completions"])
