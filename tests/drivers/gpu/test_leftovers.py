"""Records of what is left on GPUs, on a disk that may be damaged."""

import pytest

from dray.drivers.gpu.claim_state import ClaimState
from dray.drivers.gpu.leftovers import Leftover, Leftovers
from tests.damage import DAMAGES


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_told_about_and_the_others_are_read(tmp_path, damage, caplog):
    leftovers = Leftovers(tmp_path, "boot")
    for uid in ("bad", "good"):
        leftovers.put(Leftover(uid=uid, about="claim x", state=ClaimState()))
    DAMAGES[damage](tmp_path / "leftovers/bad.json")
    leftovers = Leftovers(tmp_path, "boot")
    leftovers.read()
    assert set(leftovers.known) == {"good"}
    assert "leftovers/bad.json cannot be read, and is removed" in caplog.text
