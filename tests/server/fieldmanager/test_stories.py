"""The stories in stories.yaml."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.api import schema
from dray.server.status import ApiError

from .telling import Told

STORIES = yaml.safe_load(Path(__file__).with_name("stories.yaml").read_text())


@pytest.mark.parametrize("story", [pytest.param(story, id=story["name"]) for story in STORIES])
def test_story(story: dict[str, Any]) -> None:
    told = Told(*story["kind"])
    for step in story["steps"]:
        if "code" in step or "conflicts" in step:
            _refused(told, step)
            continue
        _carry_out(told, step)
        if "fields" in step:
            assert told.fields == step["fields"]
        if "object" in step:
            expected = told.kind.convert(told.whole(step["object"]), told.kind.api_version)
            assert _content(told, expected) == _content(told, told.live or {})
        if "finalizers" in step:
            assert told.live is not None
            assert told.live["metadata"]["finalizers"] == step["finalizers"]


def _carry_out(told: Told, step: dict[str, Any]) -> None:
    if "live" in step:
        told.exist(step["live"])
    elif "apply" in step:
        options = {name: step[name] for name in ("force", "subresource") if name in step}
        told.apply(step["apply"], step["by"], **options)
    else:
        told.update(step.get("create", step.get("update")), step["by"])


def _refused(told: Told, step: dict[str, Any]) -> None:
    before = told.live
    with pytest.raises(ApiError) as refused:
        told.apply(step["apply"], step["by"])
    error = refused.value
    assert told.live == before
    assert error.code == step.get("code", 409)
    if "conflicts" in step:
        assert error.reason == "Conflict"
        assert [cause["field"] for cause in error.details["causes"]] == step["conflicts"]
        assert {cause["reason"] for cause in error.details["causes"]} == {"FieldManagerConflict"}
    assert error.message == step.get("message", error.message)


def _content(told: Told, obj: dict[str, Any]) -> dict[str, Any]:
    written = schema.write(obj, told._schema)
    return {name: value for name, value in written.items() if name != "metadata"}
