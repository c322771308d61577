"""Macros: calls that become loops while parsing, exactly the loops cel-go makes, because cost is counted on them."""

from __future__ import annotations

from collections.abc import Callable

from dray.cel.syntax import Call, Comprehension, Ident, ListNode, Literal, MapNode, Node, Select, walk

ACCU = "@result"
MAX_COPIED = 2000

Macro = Callable[[int, "Node | None", list[Node]], "Node | None"]


class MacroError(Exception):
    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


def _name(node: Node) -> str:
    if not isinstance(node, Ident) or node.name.startswith("."):
        raise MacroError("argument must be a simple name", node.offset)
    return node.name


def _names(args: list[Node], two: bool) -> tuple[str, str | None]:
    var = _name(args[0])
    if not two:
        return var, None
    var2 = _name(args[1])
    if var == var2:
        raise MacroError(f"duplicate variable name: {var}", args[1].offset)
    return var, var2


def _has(offset: int, target: Node | None, args: list[Node]) -> Node | None:
    operand = args[0]
    if not isinstance(operand, Select) or operand.test:
        raise MacroError("invalid argument to has() macro", operand.offset)
    return Select(offset, operand.operand, operand.field, test=True)


def _loop(
    offset: int,
    target: Node | None,
    names: tuple[str, str | None],
    *,
    init: Node,
    step: Node,
    condition: Node | None = None,
    result: Node | None = None,
    macro: str = "",
) -> Comprehension:
    """Over all elements unless there is a condition; yields what was accumulated unless there is a result."""
    assert target is not None
    return Comprehension(
        offset,
        range=target,
        var=names[0],
        var2=names[1],
        accu=ACCU,
        init=init,
        condition=condition or Literal(offset, True),
        step=step,
        result=result or Ident(offset, ACCU),
        macro=macro,
    )


def _quantifier(macro: str, two: bool) -> Macro:
    def expand(offset: int, target: Node | None, args: list[Node]) -> Node:
        is_all = macro == "all"
        so_far: Node = Ident(offset, ACCU)
        condition = Call(offset, "@not_strictly_false", [so_far if is_all else Call(offset, "!_", [so_far])])
        step = Call(offset, "_&&_" if is_all else "_||_", [Ident(offset, ACCU), args[-1]])
        init = Literal(offset, is_all)
        return _loop(offset, target, _names(args, two), init=init, step=step, condition=condition, macro=macro)

    return expand


def _exists_one(two: bool) -> Macro:
    def expand(offset: int, target: Node | None, args: list[Node]) -> Node:
        more = Call(offset, "_+_", [Ident(offset, ACCU), Literal(offset, 1)])
        step = Call(offset, "_?_:_", [args[-1], more, Ident(offset, ACCU)])
        result = Call(offset, "_==_", [Ident(offset, ACCU), Literal(offset, 1)])
        init = Literal(offset, 0)
        return _loop(offset, target, _names(args, two), init=init, step=step, result=result, macro="exists_one")

    return expand


def _when(offset: int, condition: Node | None, step: Node) -> Node:
    """The step, only for elements that meet the condition."""
    return step if condition is None else Call(offset, "_?_:_", [condition, step, Ident(offset, ACCU)])


def _append(offset: int, element: Node, condition: Node | None) -> Node:
    return _when(offset, condition, Call(offset, "_+_", [Ident(offset, ACCU), ListNode(offset, [element])]))


def _map(offset: int, target: Node | None, args: list[Node]) -> Node:
    step = _append(offset, args[-1], args[1] if len(args) == 3 else None)
    return _loop(offset, target, _names(args, False), init=ListNode(offset, []), step=step, macro="map")


def _filter(offset: int, target: Node | None, args: list[Node]) -> Node:
    names = _names(args, False)
    step = _append(offset, Ident(args[0].offset, names[0]), args[1])
    return _loop(offset, target, names, init=ListNode(offset, []), step=step, macro="filter")


def _transform_list(offset: int, target: Node | None, args: list[Node]) -> Node:
    step = _append(offset, args[-1], args[2] if len(args) == 4 else None)
    return _loop(offset, target, _names(args, True), init=ListNode(offset, []), step=step)


def _transform_map(entry: bool) -> Macro:
    def expand(offset: int, target: Node | None, args: list[Node]) -> Node:
        names = _names(args, True)
        inserted = [args[-1]] if entry else [Ident(args[0].offset, names[0]), args[-1]]
        insert = Call(offset, "cel.@mapInsert", [Ident(offset, ACCU), *inserted])
        step = _when(offset, args[2] if len(args) == 4 else None, insert)
        return _loop(offset, target, names, init=MapNode(offset, []), step=step)

    return expand


def bind(offset: int, name: str, init: Node, result: Node) -> Comprehension:
    """`result` with `name` standing for `init`: a loop over nothing whose accumulator is the name."""
    return Comprehension(
        offset,
        range=ListNode(offset, []),
        var="#unused",
        accu=name,
        init=init,
        condition=Literal(offset, False),
        step=Ident(offset, name),
        result=result,
        macro="bind",
        bind=True,
    )


def _bind(offset: int, target: Node | None, args: list[Node]) -> Node | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    return bind(offset, _name(args[0]), args[1], args[2])


def _refuse_large(target: Node) -> None:
    """The target occurs twice in the expansion, so a chain of these macros doubles with every link."""
    if len(walk(target)) > MAX_COPIED:
        raise MacroError("expression grows too large when its macros are expanded", target.offset)


def _opt_map(flat: bool) -> Macro:
    def expand(offset: int, target: Node | None, args: list[Node]) -> Node:
        assert target is not None
        _refuse_large(target)
        value = bind(offset, _name(args[0]), Call(offset, "value", [], target), args[1])
        return Call(
            offset,
            "_?_:_",
            [
                Call(offset, "hasValue", [], target),
                value if flat else Call(offset, "optional.of", [value]),
                Call(offset, "optional.none", []),
            ],
        )

    return expand


_SORT_INPUT = "@__sortBy_input__"


def _sort_by(offset: int, target: Node | None, args: list[Node]) -> Node:
    if isinstance(target, Literal | MapNode) or target is None:
        raise MacroError(
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression", offset
        )
    keys = _map(offset, Ident(offset, _SORT_INPUT), args)
    sort = Call(offset, "@sortByAssociatedKeys", [keys], Ident(offset, _SORT_INPUT))
    return bind(offset, _SORT_INPUT, target, sort)


MACROS: dict[tuple[str, bool, int], Macro] = {
    ("has", False, 1): _has,
    ("all", True, 2): _quantifier("all", False),
    ("all", True, 3): _quantifier("all", True),
    ("exists", True, 2): _quantifier("exists", False),
    ("exists", True, 3): _quantifier("exists", True),
    ("exists_one", True, 2): _exists_one(False),
    ("existsOne", True, 2): _exists_one(False),
    ("exists_one", True, 3): _exists_one(True),
    ("existsOne", True, 3): _exists_one(True),
    ("map", True, 2): _map,
    ("map", True, 3): _map,
    ("filter", True, 2): _filter,
    ("transformList", True, 3): _transform_list,
    ("transformList", True, 4): _transform_list,
    ("transformMap", True, 3): _transform_map(False),
    ("transformMap", True, 4): _transform_map(False),
    ("transformMapEntry", True, 3): _transform_map(True),
    ("transformMapEntry", True, 4): _transform_map(True),
    ("bind", True, 3): _bind,
    ("optMap", True, 2): _opt_map(False),
    ("optFlatMap", True, 2): _opt_map(True),
    ("sortBy", True, 2): _sort_by,
}
