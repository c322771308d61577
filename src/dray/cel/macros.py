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


def _quantifier(macro: str, two: bool) -> Macro:
    def expand(offset: int, target: Node | None, args: list[Node]) -> Node:
        var, var2 = _names(args, two)
        accu: Node = Ident(offset, ACCU)
        if macro == "all":
            condition = Call(offset, "@not_strictly_false", [accu])
            step = Call(offset, "_&&_", [Ident(offset, ACCU), args[-1]])
        else:
            condition = Call(offset, "@not_strictly_false", [Call(offset, "!_", [accu])])
            step = Call(offset, "_||_", [Ident(offset, ACCU), args[-1]])
        assert target is not None
        return Comprehension(
            offset,
            range=target,
            var=var,
            var2=var2,
            accu=ACCU,
            init=Literal(offset, macro == "all"),
            condition=condition,
            step=step,
            result=Ident(offset, ACCU),
            macro=macro,
        )

    return expand


def _exists_one(two: bool) -> Macro:
    def expand(offset: int, target: Node | None, args: list[Node]) -> Node:
        var, var2 = _names(args, two)
        more = Call(offset, "_+_", [Ident(offset, ACCU), Literal(offset, 1)])
        assert target is not None
        return Comprehension(
            offset,
            range=target,
            var=var,
            var2=var2,
            accu=ACCU,
            init=Literal(offset, 0),
            condition=Literal(offset, True),
            step=Call(offset, "_?_:_", [args[-1], more, Ident(offset, ACCU)]),
            result=Call(offset, "_==_", [Ident(offset, ACCU), Literal(offset, 1)]),
            macro="exists_one",
        )

    return expand


def _collect(
    offset: int, target: Node, names: tuple[str, str | None], init: Node, step: Node, condition: Node | None, macro: str
) -> Node:
    if condition is not None:
        step = Call(offset, "_?_:_", [condition, step, Ident(offset, ACCU)])
    return Comprehension(
        offset,
        range=target,
        var=names[0],
        var2=names[1],
        accu=ACCU,
        init=init,
        condition=Literal(offset, True),
        step=step,
        result=Ident(offset, ACCU),
        macro=macro,
    )


def _append(offset: int, element: Node) -> Node:
    return Call(offset, "_+_", [Ident(offset, ACCU), ListNode(offset, [element])])


def _map(offset: int, target: Node | None, args: list[Node]) -> Node:
    assert target is not None
    condition = args[1] if len(args) == 3 else None
    names = _names(args, False)
    return _collect(offset, target, names, ListNode(offset, []), _append(offset, args[-1]), condition, "map")


def _filter(offset: int, target: Node | None, args: list[Node]) -> Node:
    assert target is not None
    names = _names(args, False)
    step = _append(offset, Ident(args[0].offset, names[0]))
    return _collect(offset, target, names, ListNode(offset, []), step, args[1], "filter")


def _transform_list(offset: int, target: Node | None, args: list[Node]) -> Node:
    assert target is not None
    condition = args[2] if len(args) == 4 else None
    names = _names(args, True)
    return _collect(offset, target, names, ListNode(offset, []), _append(offset, args[-1]), condition, "")


def _transform_map(entry: bool) -> Macro:
    def expand(offset: int, target: Node | None, args: list[Node]) -> Node:
        assert target is not None
        names = _names(args, True)
        inserted = [args[-1]] if entry else [Ident(args[0].offset, names[0]), args[-1]]
        step = Call(offset, "cel.@mapInsert", [Ident(offset, ACCU), *inserted])
        condition = args[2] if len(args) == 4 else None
        return _collect(offset, target, names, MapNode(offset, []), step, condition, "")

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
