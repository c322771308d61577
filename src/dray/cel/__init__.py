"""CEL, the language of device selectors, as Kubernetes speaks it.

Text is parsed (`parser`, `macros`), type-checked against an environment (`checker`, `environment`) and compiled to
Python code objects in two variants: `exact` counts cost and treats errors as values, `fast` does neither and serves
where it may. `estimate` gives the worst case before running; `reads` what an expression looks at.
"""

from dray.cel.device import Device
from dray.cel.environment import DEFAULT_GATES, DEVICE, Environment, device_environment
from dray.cel.errors import CelError, CompileError, CostLimitExceeded, EvaluationError
from dray.cel.program import Evaluation, Program
from dray.cel.reads import Reads
from dray.cel.runtime import COST_LIMIT
from dray.cel.selector import MAX_LENGTH, Expressions, compile_derived, compile_expression, compile_selector
from dray.cel.size_limit import computed_instructions

__all__ = [
    "COST_LIMIT",
    "DEFAULT_GATES",
    "DEVICE",
    "MAX_LENGTH",
    "CelError",
    "CompileError",
    "CostLimitExceeded",
    "Device",
    "Environment",
    "Evaluation",
    "EvaluationError",
    "Expressions",
    "Program",
    "Reads",
    "compile_derived",
    "compile_expression",
    "compile_selector",
    "computed_instructions",
    "device_environment",
]
