"""Faults of plugins of users: what they are, how they are reported, and the budget that a hanging one runs out of.

This room reads no clock and knows no signals: who interrupts a plugin that does not answer is handed in as a
`Watchdog`. Without one a plugin may take as long as it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

ATTEMPT_SECONDS: Final = 1.0
"""What a plugin may spend on one attempt, over all nodes. An attempt as a whole takes about a millisecond."""


class FaultKind(Enum):
    RAISED = "raised"
    NONSENSE = "nonsense"
    """An answer that no plugin may give."""
    OVERRAN = "overran"
    """No answer within the budget."""


@dataclass(frozen=True, slots=True)
class Fault:
    plugin: str
    method: str
    kind: FaultKind
    text: str
    error: BaseException | None = None
    switched_off: bool = False
    """Whether it was one too many, and the plugin is not asked any more."""


FaultReport = Callable[[Fault], None]


class Budget:
    """What is left of the time for one attempt, in seconds."""

    __slots__ = ("left",)

    def __init__(self, seconds: float = ATTEMPT_SECONDS) -> None:
        self.left = seconds


class Overrun(BaseException):
    """Raised inside a plugin by a watchdog. Plugins that catch every Exception do not catch it."""


class Watchdog(Protocol):
    def call(self, budget: Budget, function: Callable[..., Any], *args: Any) -> Any:
        """Calls the function and takes from the budget what that took. Raises Overrun in it once nothing is left."""


class NoWatchdog:
    def call(self, budget: Budget, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)


NO_WATCHDOG: Final = NoWatchdog()


@dataclass(frozen=True, slots=True)
class UnloadedPlugin:
    """A plugin that was asked for and cannot be had."""

    name: str
    why: str


def ignore(_: Fault) -> None:
    """For those who do not want to know."""
