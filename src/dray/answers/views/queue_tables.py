"""The tables of `dray queue`: a tree of all queues, and the resources, loans and running pods of some queues.

The tree has one row per queue and one column per resource. A cell is USED/QUOTA and the quota that is left: unused
quota of the queue, and after a plus sign the quota of other queues that it can borrow. Resources that do not fit the
width of a terminal are only in the table of resources.
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
    """Yields the tree, and at its end the resources for which it has no column."""
    resources = _resources(shown)
    for number in range(len(resources), 0, -1):
        lines = _tree(shown, resources[:number])
        if number == 1 or max(map(len, lines)) <= _WIDEST:
            yield from lines
            break
    else:
        number = 0
        yield from _tree(shown, [])
    if hidden := [resource_text(resource) for resource in resources[number:]]:
        yield f"not shown: {', '.join(hidden)}; dray queue NAME lists all resources"


def _resources(shown: Iterable[QueueView]) -> list[str]:
    """Returns the resources that are used or limited somewhere, devices first."""
    all_amounts = (amounts for top in shown for view in top.all() for amounts in view.amounts)
    found = {amounts.resource for amounts in all_amounts if _is_relevant(amounts)}
    return sorted(found, key=lambda resource: (_LATER.index(resource) + 1 if resource in _LATER else 0, resource))


def _is_relevant(amounts: Amounts) -> bool:
    """Returns True if the resource is used or limited."""
    return bool(amounts.used) or amounts.total is not None or amounts.limit is not None


def _tree(shown: Iterable[QueueView], resources: Sequence[str]) -> list[str]:
    columns = ("Queue", *map(resource_text, resources), "Share", "Waiting")
    rows = [row for top in shown for row in _rows(top, resources, "", "")]
    return [line.rstrip() for line in table(columns, rows)]


def _rows(view: QueueView, resources: Sequence[str], first: str, rest: str) -> Iterator[tuple[str, ...]]:
    title = f"{first}{'cohort ' if view.kind == 'Cohort' else ''}{view.name}"
    yield (title, *(_cell(view, resource) for resource in resources), _share(view), str(view.number_waiting))
    for number, child in enumerate(view.children):
        last = number == len(view.children) - 1
        yield from _rows(child, resources, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _cell(view: QueueView, resource: str) -> str:
    """Returns used and quota of all flavors together, as in `2/8, 4+1 left, 2 lent`."""
    found = [amounts for amounts in view.amounts if amounts.resource == resource and _is_relevant(amounts)]
    if not found:
        return ""
    quotas = [amounts.total for amounts in found]
    quota = None if None in quotas else sum(quota for quota in quotas if quota is not None)
    parts = [f"{_amount(resource, sum(amounts.used for amounts in found))}/{_amount(resource, quota)}"]
    rooms = [amounts.room for amounts in found if amounts.room is not None]
    if rooms:
        free, lent, borrowable = (sum(column) for column in zip(*rooms, strict=True))
        more = f"+{_amount(resource, borrowable)}" if borrowable else ""
        parts.append(f"{_amount(resource, free)}{more} left")
        parts += [f"{_amount(resource, lent)} lent"] if lent else []
    return ", ".join(parts)


def _share(view: QueueView) -> str:
    """Returns the weighted share of a queue of Kueue, or the shares of resources with a quota or limit of KAI."""
    if view.borrowed is not None:
        return f"{view.borrowed / 1000:g}"
    shared = [amounts for amounts in view.amounts if amounts.share is not None]
    bound = [amounts for amounts in shared if amounts.quota is not None or amounts.limit]
    return ", ".join(f"{_amount(amounts.resource, amounts.share)} {amounts.resource}" for amounts in bound)


def detail_lines(shown: Sequence[QueueView], now: str) -> Iterator[str]:
    """Yields the resources of the queues, their loans, and the pods that run in them."""
    views = [view for top in shown for view in top.all()]
    several = len(views) > 1
    yield from _resource_lines(views, several=several)
    loans = [line for view in views for line in _loan_lines(view)]
    if loans:
        yield ""
        yield from loans
    running = [(view, unit) for view in views for unit in view.running]
    if running:
        yield ""
        columns = ("Running", "Pods", "Uses", "Age")
        rows = [_running_row(view, unit, now, several=several) for view, unit in running[:_MOST_RUNNING]]
        yield from table(("Queue", *columns) if several else columns, rows)
    if len(running) > _MOST_RUNNING:
        yield f"and {len(running) - _MOST_RUNNING} more"


def _resource_lines(views: Sequence[QueueView], *, several: bool) -> Iterator[str]:
    """Yields a table of resources, without columns that are empty in all rows."""
    rows = [_resource_cells(view, amounts) for view in views for amounts in view.amounts if _is_relevant(amounts)]
    columns = [name for name in rows[0] if name != "Queue" or several] if rows else []
    shown = [name for name in columns if name not in _OPTIONAL or any(row[name] not in ("", "-") for row in rows)]
    if shown:
        yield ""
        yield from (line.rstrip() for line in table(tuple(shown), [tuple(row[name] for name in shown) for row in rows]))


def _resource_cells(view: QueueView, amounts: Amounts) -> dict[str, str]:
    borrowable, lent = (amounts.room.borrowable, amounts.room.lent) if amounts.room is not None else (None, None)
    free = amounts.room.free if amounts.room is not None else None
    if free is None and amounts.total is not None:
        free = max(0.0, amounts.total - amounts.used)
    numbers = {
        "Quota": amounts.total,
        "Limit": amounts.limit,
        "Used": amounts.used,
        "Share": amounts.share,
        "Free": free,
        "Borrowable": borrowable,
        "Lent": lent if view.kind != "Queue" else None,
    }
    names = {"Queue": view.name, "Flavor": amounts.flavor, "Resource": resource_text(amounts.resource)}
    return {**names, **{name: _amount(amounts.resource, number) for name, number in numbers.items()}}


def _loan_lines(view: QueueView) -> Iterator[str]:
    for amounts in view.amounts:
        resource = resource_text(amounts.resource)
        if amounts.borrowers and amounts.room is not None:
            lends = f"{view.name} lends {_amount(amounts.resource, amounts.room.lent)} {resource}"
            yield f"{lends}: {_loans_text(amounts, amounts.borrowers, 'has borrowed')}; {_reclaim_text(view)}"
        if view.kind == "ClusterQueue" and amounts.quota is not None and amounts.used > amounts.quota:
            borrowed = f"{view.name} has borrowed {_amount(amounts.resource, amounts.used - amounts.quota)} {resource}"
            lenders = _loans_text(amounts, amounts.lenders, "lends")
            yield f"{borrowed}: {lenders}" if lenders else f"{borrowed} of its cohort"


def _reclaim_text(view: QueueView) -> str:
    """Returns how the queue gets lent quota back."""
    if view.reclaims == "Never":
        return "it gets them back when their pods end (reclaimWithinCohort: Never)"
    whom = "borrowers of lower priority" if view.reclaims == "LowerPriority" else "borrowers"
    return f"its pods evict {whom} to get them back (reclaimWithinCohort: {view.reclaims})"


def _loans_text(amounts: Amounts, loans: Iterable[Loan], verb: str) -> str:
    return ", ".join(f"{loan.queue} {verb} {_amount(amounts.resource, loan.amount)}" for loan in loans)


def _running_row(view: QueueView, running: Running, now: str, *, several: bool) -> tuple[str, ...]:
    pod = running.pods[0]
    title = f"group {running.group.title}" if running.group is not None else f"pod {'/'.join(pod.key)}"
    title = f"{title} (being evicted)" if running.evicted else title
    uses = ", ".join(f"{_amount(name, amount)} {resource_text(name)}" for name, amount in sorted(running.uses.items()))
    cells = (title, str(len(running.pods)), uses or "-", age(running.since, now))
    return (view.name, *cells) if several else cells


def _amount(resource: str, number: float | None) -> str:
    return "-" if number is None else amount_text(resource, number)
