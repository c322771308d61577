"""Thresholds of the cyclic garbage collector: by default it runs every few hundred new objects.

A request or a scheduling decision makes as many objects, and few cycles or none.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_THRESHOLDS: Final = (20_000, 20, 50)


def collect_rarely() -> None:
    """Raises the collector's thresholds, and exempts existing objects from collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


def keep() -> None:
    """The collector does not look at what is there now, until `drop`. Its first look at 25,000 objects of a cluster
    takes 0.3 s."""
    gc.freeze()


def drop() -> None:
    """Makes exempted objects collectable again, after they were released."""
    gc.unfreeze()


@contextmanager
def loading() -> Iterator[None]:
    """While modules, or the objects of a cluster, are loaded nothing is collected: they stay. Looking at them again and
    again takes a tenth of the time for modules, and five sixths for 50,000 objects."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
