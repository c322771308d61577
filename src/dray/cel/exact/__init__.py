"""The exact variant: errors are values, cost is counted, the limit holds.

Every operation becomes a statement, so nesting in the expression does not nest in Python. `compiler` says what becomes
of each node, with `calls` and `chains` (of selections and indexes) for the longer answers; they
`yield` a node to get the name or constant that holds its value, and all write into one `Code`. What cel-go counts and
in which order decides the shape of the code: unary and binary calls evaluate all operands even after an error, calls
with more operands, lists and maps stop at the first, and then such calls cost nothing.
"""

from __future__ import annotations

from dray.cel.constants import Folder
from dray.cel.environment import Environment
from dray.cel.exact.code import Code, Evaluate
from dray.cel.exact.compiler import Compiler
from dray.cel.recursion import run
from dray.cel.syntax import Node


def compile_exact(root: Node, environment: Environment, folder: Folder, *, places: bool = False) -> Evaluate:
    """A function of the variables' values that returns the value, or the error as a value, and the cost.

    With `places`, errors know where in the text they came from.
    """
    code = Code(environment, places=places)
    compiler = Compiler(code, environment, folder)
    return code.load(run(compiler.value(root), compiler.value))
