"""The garbage collector rests while modules are loaded, and works again after that."""

import gc

from dray.process.memory import loading


def test_nothing_is_collected_while_modules_are_loaded():
    assert gc.isenabled()
    with loading():
        assert not gc.isenabled()
        with loading():
            pass
        # Whoever loads within has not switched it off.
        assert not gc.isenabled()
    assert gc.isenabled()
