"""Programs from text: parse, check types, check the type of the result, and literals that can be judged before running:
patterns, durations and timestamps.

Programs do not change, so those of device expressions are kept and shared: one LRU for all of them. `Expressions` is
what an API server asks about an expression before it stores it: does it compile, and what may it cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final

from dray.api.caches import Cache
from dray.api.gates import FeatureGates
from dray.api.rules import ExpressionReport
from dray.cel import patterns, size_limit
from dray.cel import types as t
from dray.cel.checker import check
from dray.cel.constants import FOLDED, Folder
from dray.cel.environment import DEVICE, Environment, device_environment, plain
from dray.cel.errors import CompileError, EvaluationError
from dray.cel.library.moments import parse_duration, parse_timestamp
from dray.cel.library.regex import compile_literal
from dray.cel.names import resolve_names
from dray.cel.parser import parse
from dray.cel.program import Program, Tree
from dray.cel.syntax import Call, ListNode, MapNode, Node, walk
from dray.cel.types import Type

_PATTERN: Final = frozenset(("matches", "find", "findAll"))
_MOMENTS: Final = {"duration": parse_duration, "timestamp": parse_timestamp}


JUDGED: Final = _PATTERN | _MOMENTS.keys()
"""The calls whose literals are looked at."""

MAX_LENGTH: Final = 10 * 1024
# Measured: a node with its share of compiled code takes up to one KiB, the text several times its length.
_BYTES_PER_NODE: Final = 1024
_BYTES_PER_CHARACTER: Final = 4
PROGRAMS: Final[Cache[tuple[str, Environment], Program]] = Cache(4096, 16 * 2**20)
_SCALARS: Final = (t.BOOL, t.INT, t.STRING, t.SEMVER, t.DYN, t.ANY)


def validate_literals(node: Call, folder: Folder, text: str) -> None:
    """Raises CompileError if the call has a constant argument that cannot mean anything."""
    if node.function in _PATTERN:
        argument = node.operands()[1]
    elif node.function in _MOMENTS and node.args:
        argument = node.args[0]
    else:
        return
    folded = folder.fold(argument)
    if folded is None or not isinstance(folded.value, str):
        folder.computes_patterns |= node.function in _PATTERN
        return
    try:
        if node.function in _MOMENTS:
            _MOMENTS[node.function](folded.value)
        elif folded.value not in folder.patterns:
            folder.patterns[folded.value] = compile_literal(folded.value).programsize
    except EvaluationError as error:
        message = f"invalid {node.function} argument: {error}"
        raise CompileError(message, text=text, offset=argument.offset) from None


def compile_selector(expression: str, *, env: Environment = DEVICE) -> Program:
    """A program that yields bool, or a value that must turn out to be one; raises CompileError."""
    program = compile_device_expression(expression, env=env)
    type_ = program.result_type
    if type_ != t.BOOL and not type_.dynamic:
        raise CompileError(f"must evaluate to bool or the unknown type, not {type_}", text=expression)
    return program


def compile_derived(expression: str, *, env: Environment = DEVICE) -> Program:
    """A program for a derived attribute: yields a scalar or, where lists are attributes, a list of them."""
    program = compile_device_expression(expression, env=env)
    type_ = program.result_type
    lists = env.function("includes") is not None
    if type_ in _SCALARS or (lists and type_.kind == "list" and type_.params[0] in _SCALARS):
        return program
    more = " or a list of these scalars" if lists else ""
    raise CompileError(
        f"must evaluate to a primitive scalar (string, integer, boolean, semver){more}, not {type_}", text=expression
    )


def compile_device_expression(expression: str, *, env: Environment = DEVICE) -> Program:
    """A program over `device` that may yield anything; raises CompileError."""
    program = PROGRAMS.get((expression, env))
    if program is not None:
        try:
            patterns.charge(program.instructions)
        except patterns.PatternError as error:
            raise CompileError(str(error), text=expression) from None
    else:
        if len(expression.encode("utf-8", "surrogatepass")) > MAX_LENGTH:
            raise CompileError(f"too long: must have at most {MAX_LENGTH} bytes")
        program = compile_text(expression, env)
        size = program.nodes * _BYTES_PER_NODE + len(expression) * _BYTES_PER_CHARACTER
        PROGRAMS.put((expression, env), program, size)
    return program


def compile_expression(expression: str, variables: Mapping[str, Type], *, checked: bool = True) -> Program:
    """A program of plain CEL over the given variables, of any type."""
    return compile_text(expression, plain(variables, checked=checked))


def compile_text(expression: str, environment: Environment) -> Program:
    """A program of any length and type, compiled anew; raises CompileError."""
    size_limit.start()
    try:
        root = _resolve(expression, environment)
        folder = Folder(environment, expression)
        nodes = walk(root)
        _judge_within_limit(nodes, folder, environment, expression)
    except RecursionError:
        raise CompileError("expression is nested too deeply", text=expression) from None
    return Program(expression, environment, Tree(root, folder, len(nodes)))


def _judge_within_limit(nodes: list[Node], folder: Folder, environment: Environment, text: str) -> None:
    with patterns.limit(patterns.MOST_IN_OBJECT) as remaining:
        before = remaining[0]
        try:
            _judge_constants(nodes, folder, environment, text)
        except CompileError as error:
            error.instructions = before - remaining[0]
            raise


def _judge_constants(nodes: list[Node], folder: Folder, environment: Environment, text: str) -> None:
    """Raises CompileError if something turns out to be a constant that cannot be."""
    for node in nodes:
        if isinstance(node, Call):
            if node.function in FOLDED:
                folder.fold(node)
            if node.function in JUDGED and environment.checked:
                validate_literals(node, folder, text)
        elif isinstance(node, ListNode | MapNode):
            folder.fold(node)


def _resolve(expression: str, environment: Environment) -> Node:
    root = parse(expression)
    if environment.checked:
        return check(root, environment, expression)
    return resolve_names(root, environment)


class Expressions:
    """The expression checker that validation is handed; it compiles against the environment of the gates."""

    def one_object(self) -> AbstractContextManager[object]:
        return patterns.limit(patterns.MOST_IN_OBJECT)

    def selector(self, expression: str, gates: FeatureGates) -> ExpressionReport:
        return _report(lambda: compile_selector(expression, env=environment_of(gates)))

    def derived(self, expression: str, gates: FeatureGates) -> ExpressionReport:
        return _report(lambda: compile_derived(expression, env=environment_of(gates)))


def environment_of(gates: FeatureGates) -> Environment:
    return device_environment(
        consumable_capacity=gates["DRAConsumableCapacity"], list_attributes=gates["DRAListTypeAttributes"]
    )


def _report(compile_: Callable[[], Program]) -> ExpressionReport:
    try:
        return ExpressionReport(cost=compile_().estimated_cost)
    except CompileError as error:
        return ExpressionReport(error=f"compilation failed: {error}")
