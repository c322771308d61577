"""CDI specs as a node reads them: what is wrong with one file is told, and the other files count."""

import os

import pytest

from dray.node import cdi
from tests.damage import DAMAGES

SPEC = '{"cdiVersion": "0.5.0", "kind": "x.com/gpu", "devices": [{"name": "%s", "containerEdits": {"env": ["A=1"]}}]}'


@pytest.mark.parametrize("damage", [kind for kind in DAMAGES if kind != "link"])
def test_a_damaged_spec_is_named_and_holds_up_no_other(tmp_path, damage):
    for name in ("bad", "good"):
        (tmp_path / f"{name}.json").write_text(SPEC % name)
    DAMAGES[damage](tmp_path / "bad.json")
    assert cdi.resolve(["x.com/gpu=good"], [tmp_path]).environment == {"A": "1"}
    with pytest.raises(cdi.CdiError, match=f"no CDI spec has device x.com/gpu=bad; {tmp_path}/bad.json: "):
        cdi.resolve(["x.com/gpu=bad"], [tmp_path])


def test_links_to_specs_are_followed(tmp_path):
    (tmp_path / "elsewhere").write_text(SPEC % "a")
    os.mkdir(tmp_path / "cdi")
    (tmp_path / "cdi/a.json").symlink_to(tmp_path / "elsewhere")
    assert cdi.resolve(["x.com/gpu=a"], [tmp_path / "cdi"]).environment == {"A": "1"}
