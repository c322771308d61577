"""The tables of `dray queue`: all queues as a tree, and of some of them the resources, loans and running pods.

The tree has one row per queue and one column per resource. A cell is USED/QUOTA, with what is left: unused quota of the
queue, and after a plus sign quota of others that it can borrow. Resources for which there is no space in the width of a
terminal are left to the table of resources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from dray.answers.explaining.queue_explainer import Loan
from dray.answers.views.device_facts import table
from dray.answers.views.queue_view import Amounts, QueueView, Running
from dray.api.tables.column import age
from dray.scheduling.model.messages import amount_text, resource_text

_WIDEST: Final = 100
_MOST_RUNNING: Final = 20
_OPTIONAL: Final = ("Flavor", "Limit", "Share", "Borrowable", "Lent")
# Devices come before these in the columns of the tree.
_LATER: Final = ("cpu", "memory", "ephemeral-storage", "pods")


def tree_lines(shown: Sequence[QueueView]) -> Iterator[str]:
    """Returns the tree; at its end the resources for which it has no column, if there are any."""
    resources = _resources(shown)
    for number in range(len(resources), 0, -1):
        lines = _tree(shown, resources[:number])
        if number == 1 or max(map(len, lines)) <= _WIDEST:
            yield from lines
            break
    else:
        number = 0
        yield from _tree(shown, [])
    if hidden := [resource_text(each) for each in resources[number:]]:
        yield f"not shown: {', '.join(hidden)}; dray queue NAME lists all resources"


def _resources(shown: Iterable[QueueView]) -> list[str]:
    """Returns the resources that are used or limited somewhere, devices first."""
    amounts = (each for top in shown for view in top.all() for each in view.amounts)
    found = {each.resource for each in amounts if _matters(each)}
    return sorted(found, key=lambda each: (_LATER.index(each) + 1 if each in _LATER else 0, each))


def _matters(amounts: Amounts) -> bool:
    return bool(amounts.used) or amounts.total is not None or amounts.limit is not None


def _tree(shown: Iterable[QueueView], resources: Sequence[str]) -> list[str]:
    columns = ("Queue", *map(resource_text, resources), "Share", "Waiting")
    rows = [row for top in shown for row in _rows(top, resources, "", "")]
    return [line.rstrip() for line in table(columns, rows)]


def _rows(view: QueueView, resources: Sequence[str], first: str, rest: str) -> Iterator[tuple[str, ...]]:
    title = f"{first}{'cohort ' if view.kind == 'Cohort' else ''}{view.name}"
    yield (title, *(_cell(view, each) for each in resources), _share(view), str(view.number_waiting))
    for number, child in enumerate(view.children):
        last = number == len(view.children) - 1
        yield from _rows(child, resources, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _cell(view: QueueView, resource: str) -> str:
    """Returns used and quota of all flavors together, as in `2/8, 4+1 left, 2 lent`."""
    found = [each for each in view.amounts if each.resource == resource and _matters(each)]
    if not found:
        return ""
    quotas = [each.total for each in found]
    quota = None if None in quotas else sum(each for each in quotas if each is not None)
    parts = [f"{_amount(resource, sum(each.used for each in found))}/{_amount(resource, quota)}"]
    rooms = [each.room for each in found if each.room is not None]
    if rooms:
        free, lent, borrowable = (sum(each) for each in zip(*rooms, strict=True))
        more = f"+{_amount(resource, borrowable)}" if borrowable else ""
        parts.append(f"{_amount(resource, free)}{more} left")
        parts += [f"{_amount(resource, lent)} lent"] if lent else []
    return ", ".join(parts)


def _share(view: QueueView) -> str:
    """Returns the weighted share of a queue of Kueue; of KAI, the amounts where quota or limit bound them."""
    if view.borrowed is not None:
        return f"{view.borrowed / 1000:g}"
    bound = [each for each in view.amounts if each.share is not None and (each.quota is not None or each.limit)]
    return ", ".join(f"{_amount(each.resource, each.share)} {each.resource}" for each in bound)


def detail_lines(shown: Sequence[QueueView], now: str) -> Iterator[str]:
    """Returns the resources of the queues, who has borrowed their quota, and the pods that run in them."""
    views = [view for top in shown for view in top.all()]
    several = len(views) > 1
    yield from _resource_lines(views, several=several)
    loans = [line for view in views for line in _loan_lines(view)]
    if loans:
        yield ""
        yield from loans
    running = [(view, each) for view in views for each in view.running]
    if running:
        yield ""
        columns = ("Running", "Pods", "Uses", "Age")
        rows = [_running_row(view, each, now, several=several) for view, each in running[:_MOST_RUNNING]]
        yield from table(("Queue", *columns) if several else columns, rows)
    if len(running) > _MOST_RUNNING:
        yield f"and {len(running) - _MOST_RUNNING} more"


def _resource_lines(views: Sequence[QueueView], *, several: bool) -> Iterator[str]:
    """Returns a table with only those columns in which some resource has something to show."""
    amounts = [(view, each) for view in views for each in view.amounts if _matters(each)]
    rows = [_resource_cells(view, each) for view, each in amounts]
    columns = [name for name in rows[0] if name != "Queue" or several] if rows else []
    shown = [name for name in columns if name not in _OPTIONAL or any(row[name] not in ("", "-") for row in rows)]
    if shown:
        yield ""
        yield from (line.rstrip() for line in table(tuple(shown), [tuple(row[name] for name in shown) for row in rows]))


def _resource_cells(view: QueueView, each: Amounts) -> dict[str, str]:
    borrowable, lent = (each.room.borrowable, each.room.lent) if each.room is not None else (None, None)
    free = each.room.free if each.room is not None else None
    if free is None and each.total is not None:
        free = max(0.0, each.total - each.used)
    numbers = {
        "Quota": each.total,
        "Limit": each.limit,
        "Used": each.used,
        "Share": each.share,
        "Free": free,
        "Borrowable": borrowable,
        "Lent": lent if view.kind != "Queue" else None,
    }
    names = {"Queue": view.name, "Flavor": each.flavor, "Resource": resource_text(each.resource)}
    return {**names, **{name: _amount(each.resource, number) for name, number in numbers.items()}}


def _loan_lines(view: QueueView) -> Iterator[str]:
    for each in view.amounts:
        resource = resource_text(each.resource)
        if each.borrowers and each.room is not None:
            lends = f"{view.name} lends {_amount(each.resource, each.room.lent)} {resource}"
            yield f"{lends}: {_named(each, each.borrowers, 'has borrowed')}; {_reclaim(view)}"
        if view.kind == "ClusterQueue" and each.quota is not None and each.used > each.quota:
            borrowed = f"{view.name} has borrowed {_amount(each.resource, each.used - each.quota)} {resource}"
            yield f"{borrowed}: {_named(each, each.lenders, 'lends')}" if each.lenders else f"{borrowed} of its cohort"


def _reclaim(view: QueueView) -> str:
    """Returns what it takes to get lent quota back."""
    if view.reclaims == "Never":
        return "it gets them back when their pods end (reclaimWithinCohort: Never)"
    whom = "borrowers of lower priority" if view.reclaims == "LowerPriority" else "borrowers"
    return f"its pods evict {whom} to get them back (reclaimWithinCohort: {view.reclaims})"


def _named(amounts: Amounts, loans: Iterable[Loan], verb: str) -> str:
    return ", ".join(f"{each.queue} {verb} {_amount(amounts.resource, each.amount)}" for each in loans)


def _running_row(view: QueueView, running: Running, now: str, *, several: bool) -> tuple[str, ...]:
    pod = running.pods[0]
    title = f"group {running.group.title}" if running.group is not None else f"pod {'/'.join(pod.key)}"
    title = f"{title} (being evicted)" if running.evicted else title
    uses = ", ".join(f"{_amount(name, amount)} {resource_text(name)}" for name, amount in sorted(running.uses.items()))
    cells = (title, str(len(running.pods)), uses or "-", age(running.since, now))
    return (view.name, *cells) if several else cells


def _amount(resource: str, number: float | None) -> str:
    return "-" if number is None else amount_text(resource, number)
