"""The scheduler stays easy to read: limits of size, and of attributes that one object sets on another.

Complexity (at most 15) is checked by ruff, rule C901 in pyproject.toml. A limit that does not hold yet has a list of
exceptions. The lists only get shorter: an exception that has become unnecessary fails its test, so that it is deleted.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SCHEDULING = Path(__file__).parents[1] / "src/dray/scheduling"
MODULES = {str(path.relative_to(SCHEDULING)): path for path in sorted(SCHEDULING.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}

MOST_MODULES = 20
"""In one folder, without `__init__.py`."""
MOST_LINES = 350
MOST_FUNCTION_LINES = 45
MOST_QUOTA_METHODS = 12

LONG_MODULES = {}
"""Modules with more than MOST_LINES lines, and how many they may have at most."""

LONG_FUNCTIONS: dict[str, int] = {}
"""Functions with more than MOST_FUNCTION_LINES lines, and how many they may have at most."""

_QUEUE_RECORD = "QueuedPod and WaitEntry are records of the queue; nobody reads these as the result of a call."
_CYCLE = "The cycle carries results from one extension point of an attempt to the next, like Kubernetes' CycleState."
_OWN_NODES = "Nodes of a tree that this object builds and owns."

SETS_ATTRIBUTES = {
    "core/framework.py": {"own_filters": _CYCLE},
    "core/guarded_plugin.py": {"cluster": "Set once: the plugin of a user gets the state that it may read."},
    "model/tolerations.py": {"_by_key _known": "A tuple is filled in `__new__`."},
    "placement/algorithm.py": {
        "devices feasible nodes": _CYCLE,
    },
    "placement/group_tree_search.py": {"planned": "Branches are records of the search that built them."},
    "placement/group_trial.py": {"claims": _CYCLE, "placement": "Members are records of the trial."},
    "plugin.py": {"name": "The name of a plugin class is set when it is defined."},
    "plugins/dynamic_resources.py": {"claims devices nodes": _CYCLE},
    "quota/kai/share_tree.py": {
        "children fair held kept evicting reserved revision waiting wanted": _OWN_NODES,
    },
    "quota/kueue/usage.py": {"at consumed penalty": "Records of LocalQueue usage."},
    "quota/quota_tree.py": {"children height lendables limits parent used": _OWN_NODES},
    "quota/usage_decay.py": {"end": "Buckets are records of the history."},
    "reservations/reserved_places.py": {
        "arrival awaits_binding failures group nodes not_before priority": "Records of reservations.",
        "renewed shadow since uids until": "Records of reservations.",
    },
    "waiting/queue.py": {
        "added arrival attempts entry errors pod subqueue turn": _QUEUE_RECORD,
    },
    "waiting/wait_entries.py": {"diagnosis entry failures not_before seen timer trying": _QUEUE_RECORD},
}
"""By module: attributes that are set on objects which the function did not create, and why."""


class Function(NamedTuple):
    name: str
    node: ast.FunctionDef


def functions(tree: ast.AST, prefix: str = "") -> Iterator[Function]:
    """Yields all functions below a node with their qualified names."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef):
            yield Function(f"{prefix}{child.name}", child)
            yield from functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from functions(child, f"{prefix}{child.name}.")
        else:
            yield from functions(child, prefix)


def created(function: ast.FunctionDef) -> set[str]:
    """Returns the local variables that the function binds only to objects of a class that it calls by name."""
    new = Counter(
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id.lstrip("_")[:1].isupper()
        for target in node.targets
        if isinstance(target, ast.Name)
    )
    bound = Counter(
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    return {name for name, number in new.items() if bound[name] == number}


def foreign_attributes(function: ast.FunctionDef) -> Iterator[str]:
    """Yields the attributes that the function sets on other objects than `self` and those that it created."""
    own = {"self", *created(function)}
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()) if name in own:
                continue
            case ast.Attribute(attr=attribute, ctx=ast.Store() | ast.Del()):
                yield attribute


def check_exceptions(measured: dict[str, int], limit: int, exceptions: dict[str, int]) -> None:
    """Asserts that sizes are within the limit or their exception, and that every exception is still needed."""
    too_large = {name: size for name, size in measured.items() if size > exceptions.get(name, limit)}
    assert not too_large, f"more than {limit}, or more than the exception allows"
    unnecessary = {name for name in exceptions if measured.get(name, 0) <= limit}
    assert not unnecessary, "delete these exceptions, they are not needed any more"


def test_a_folder_has_at_most_twenty_modules():
    folders = Counter(path.parent for path in MODULES.values() if path.name != "__init__.py")
    assert {str(folder): number for folder, number in folders.items() if number > MOST_MODULES} == {}


def test_a_module_has_at_most_350_lines():
    lines = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}
    check_exceptions(lines, MOST_LINES, LONG_MODULES)


def test_a_function_has_at_most_45_lines():
    lines = {
        f"{module} {function.name}": (function.node.end_lineno or 0) - function.node.lineno + 1
        for module, tree in TREES.items()
        for function in functions(tree)
    }
    check_exceptions(lines, MOST_FUNCTION_LINES, LONG_FUNCTIONS)


def test_no_object_sets_an_attribute_of_another_one():
    found = {
        (module, attribute)
        for module, tree in TREES.items()
        for function in functions(tree)
        for attribute in foreign_attributes(function.node)
    }
    allowed = {
        (module, attribute)
        for module, reasons in SETS_ATTRIBUTES.items()
        for attributes in reasons
        for attribute in attributes.split()
    }
    assert sorted(found - allowed) == [], "return a value instead of setting an attribute of another object"
    assert sorted(allowed - found) == [], "delete these exceptions, they are not needed any more"


def test_the_search_for_attributes_sees_collaborators_and_ignores_new_objects():
    source = """
def function(self, other):
    self.own = 1
    made = Made()
    made.new = 1
    self._part.flag = True
    other.first, rest = 1, 2
    other.count += 1
"""
    [function] = functions(ast.parse(source))
    assert sorted(foreign_attributes(function.node)) == ["count", "first", "flag"]


def test_the_quota_interface_has_at_most_twelve_methods():
    [policy] = [
        node
        for node in ast.walk(TREES["quota/queue_policy.py"])
        if isinstance(node, ast.ClassDef) and node.name == "QueuePolicy"
    ]
    methods = {"QueuePolicy": sum(isinstance(node, ast.FunctionDef) for node in policy.body)}
    check_exceptions(methods, MOST_QUOTA_METHODS, {})
