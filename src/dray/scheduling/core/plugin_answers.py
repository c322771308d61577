"""Answers of users' plugins: checks them against the contract of `Plugin` before they are used."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, Final

from dray.scheduling.model.messages import status_text
from dray.scheduling.model.node import Node
from dray.scheduling.model.reasons import Code, LabelMismatch, ObjectRef, Reason, Shortage, UntoleratedTaint
from dray.scheduling.model.status import UNSURE, Status
from dray.scheduling.plugin import SKIP, Depends, FailurePolicy, Plugin, Skip

HIGHEST_SCORE: Final = 100
_HIGHEST_WEIGHT: Final = 100
_LONGEST_NAME: Final = 63
_LONGEST_TEXT: Final = 200
_LONGEST_SHOWN: Final = 60
_PLAIN: Final = (str, bytes, int, float, bool, type(None))
_DETAILS: Final = (UntoleratedTaint, LabelMismatch, Shortage)


class InvalidAnswer(Exception):
    """Raised for an answer that violates the contract of `Plugin`."""


def check_declaration(plugin: object) -> Plugin:
    """Checks the class attributes of a plugin. Raises InvalidAnswer."""
    if not isinstance(plugin, Plugin):
        raise InvalidAnswer(f"it is {_shown(plugin)}, not a dray.scheduling.plugin.Plugin")
    name, weight = plugin.name, plugin.weight
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _LONGEST_NAME:
        raise InvalidAnswer(f"its name must have 1 to {_LONGEST_NAME} printable characters, not be {_shown(name)}")
    if type(weight) is not int or not 0 <= weight <= _HIGHEST_WEIGHT:
        raise InvalidAnswer(f"its weight must be an int from 0 to {_HIGHEST_WEIGHT}, not {_shown(weight)}")
    if not isinstance(plugin.depends_on, Depends) or not plugin.depends_on:
        raise InvalidAnswer(
            f"its depends_on must be of dray.scheduling.plugin.Depends, not {_shown(plugin.depends_on)}"
        )
    if not isinstance(plugin.failure_policy, FailurePolicy):
        raise InvalidAnswer(f"its failure_policy must be a FailurePolicy, not {_shown(plugin.failure_policy)}")
    return plugin


def status(answer: object, plugin: str) -> Status | None:
    """Checks an answer of pre_enqueue or filter. Returns it with the plugin's name, and texts of one line."""
    if answer is None or answer is UNSURE:
        return answer
    if not isinstance(answer, Status):
        raise InvalidAnswer(f"answered {_shown(answer)}, not None or a Status")
    if not answer.reasons or not isinstance(answer.reasons, tuple) or not all(map(_is_reason, answer.reasons)):
        raise InvalidAnswer(f"answered a Status with the reasons {_shown(answer.reasons)}")
    if not all(isinstance(reference, ObjectRef) for reference in answer.waits_for):
        raise InvalidAnswer(f"answered a Status that waits for {_shown(answer.waits_for)}, not for ObjectRefs")
    try:
        status_text(answer)
    except (IndexError, KeyError) as error:
        raise InvalidAnswer("answered a Status with too few arguments for its reason") from error
    reasons = tuple(_shortened(reason) for reason in answer.reasons)
    return replace(answer, plugin=answer.plugin or plugin, reasons=reasons)


def prefilter(answer: object, plugin: str) -> Status | Skip | None:
    return SKIP if answer is SKIP else status(answer, plugin)


def prescore(answer: object) -> Skip | None:
    if answer is not None and answer is not SKIP:
        raise InvalidAnswer(f"answered {_shown(answer)}, not None or SKIP")
    return SKIP if answer is SKIP else None


def score(answer: object) -> int:
    """Checks a score. A bool is not allowed, although it is an int in Python."""
    if type(answer) is not int or not 0 <= answer <= HIGHEST_SCORE:
        raise InvalidAnswer(f"answered {_shown(answer)}, not an int from 0 to {HIGHEST_SCORE}")
    return answer


def raw_score(answer: object) -> int:
    """Checks a score that will be normalized."""
    if type(answer) is not int:
        raise InvalidAnswer(f"answered {_shown(answer)}, not an int")
    return answer


def normalized(answer: object, asked: Mapping[int, int]) -> dict[int, int]:
    if not isinstance(answer, dict) or not answer.keys() <= asked.keys():
        raise InvalidAnswer(f"answered {_shown(answer)}, not scores of the nodes that were asked for")
    return {number: score(value) for number, value in answer.items()}


def truth(answer: object) -> bool:
    if not isinstance(answer, bool):
        raise InvalidAnswer(f"answered {_shown(answer)}, not True or False")
    return answer


def details(answer: object) -> tuple[Any, ...]:
    if not isinstance(answer, tuple) or not all(isinstance(detail, _DETAILS) for detail in answer):
        raise InvalidAnswer(f"answered {_shown(answer)}, not a tuple of LabelMismatch, Shortage and UntoleratedTaint")
    return answer


def references(answer: object) -> tuple[ObjectRef, ...]:
    if not isinstance(answer, tuple) or not all(isinstance(reference, ObjectRef) for reference in answer):
        raise InvalidAnswer(f"answered {_shown(answer)}, not a tuple of ObjectRefs")
    return answer


def sign(answer: object) -> Hashable:
    """Checks a signature. Only plain values are allowed, since comparing them is quick and cannot fail."""
    if isinstance(answer, tuple):
        return tuple(map(sign, answer))
    if not isinstance(answer, _PLAIN):
        raise InvalidAnswer(f"answered {_shown(answer)}, not a text, a number, None or a tuple of them")
    # NaN is not equal to itself.
    return str(answer) if isinstance(answer, float) else answer


def nothing(answer: object) -> None:
    """Accepts any answer of `reserve`."""


def node_of(args: tuple[Any, ...]) -> Node | None:
    return next((arg for arg in args if isinstance(arg, Node)), None)


def _is_reason(value: object) -> bool:
    return (
        isinstance(value, Reason) and isinstance(value.code, Code) and all(isinstance(arg, str) for arg in value.args)
    )


def _shortened(reason: Reason) -> Reason:
    return Reason(reason.code, tuple(" ".join(arg.split())[:_LONGEST_TEXT] for arg in reason.args))


def _shown(answer: object) -> str:
    try:
        text = " ".join(repr(answer).split())
    except Exception:
        text = f"a {type(answer).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
