"""The rules of a kind, by operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation.fields import Errors

Create = Callable[[Object, Rules], Errors]
Update = Callable[[Object, Object, Rules], Errors]


class Checks(NamedTuple):
    create: Create
    update: Update
    status: Update | None = None
