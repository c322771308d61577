"""Texts about pods that wait in a queue: the cause, which queues use the quota, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.answers.explaining.queue_explainer import Evictions, Loan, QueueAnswer, QuotaShortage, ShareExcess
from dray.scheduling.model.messages import amount_text, reason_text, resource_text
from dray.scheduling.model.reasons import Code

_MOST_NAMED: Final = 3
_REMEDIES: Final = {
    Code.QUEUE_STOPPED: "set its stopPolicy to None",
    Code.QUEUE_NAMESPACE: "change its namespaceSelector, or the labels of the namespace",
    Code.OVER_LIMIT: "wait until pods of the queue end, or raise the limit",
    Code.NON_PREEMPTIBLE_OVER_QUOTA: (
        "wait until such pods end, raise the quota, or label the pods kai.scheduler/preemptibility: preemptible"
    ),
}


def queue_text(answer: QueueAnswer) -> str:
    """Returns the cause and the remedy; empty if the queue admits the pods."""
    if answer.problem is None:
        return excess_text(answer.queue, answer.excess) if answer.excess is not None else ""
    return "; ".join(filter(None, (cause_text(answer), _remedy(answer))))


def cause_text(answer: QueueAnswer) -> str:
    """Returns why the queue does not admit the pods, and which queues have borrowed the quota."""
    if answer.problem is None:
        return ""
    said, lack = reason_text(answer.problem), answer.shortage
    if lack is None:
        return said
    if lack.wanted > lack.most:
        return said if lack.quota == lack.most else f"{said}; its own quota is {_amount(lack, lack.quota)}"
    if lack.used + lack.wanted <= lack.quota:
        wanted, quota, left = (_amount(lack, amount) for amount in (lack.wanted, lack.quota, lack.left))
        resource = resource_text(lack.resource)
        said = f"needs {wanted} {resource} of the quota of {quota} of ClusterQueue {answer.queue}, {left} left"
    elif lack.wanted <= lack.quota or not lack.quota:
        quota = f"of its quota of {_amount(lack, lack.quota)}" if lack.quota else "and it has no quota of its own"
        said = f"{said}; its pods use {_amount(lack, lack.used)} {quota}"
    return "; ".join([said, *_borrowing_limit(lack), *_loans(lack)])


def excess_text(queue: str, excess: ShareExcess) -> str:
    """Returns why a queue that has no place for its pods does not reclaim from others."""
    wanted, after, share = (
        amount_text(excess.resource, amount) for amount in (excess.wanted, excess.held + excess.wanted, excess.share)
    )
    over = [f"{loan.queue} is {amount_text(excess.resource, loan.amount)} above its quota" for loan in excess.others]
    said = f"Queue {queue} evicts no pods of other queues: with {wanted} more it would have {after} {excess.resource},"
    return "; ".join([f"{said} above its fair share of {share}", *over[:_MOST_NAMED]])


def _borrowing_limit(lack: QuotaShortage) -> list[str]:
    """Returns the limit if it would be exceeded, however much others lend."""
    limit = lack.borrowing_limit
    if limit is None or lack.used + lack.wanted <= lack.quota + limit:
        return []
    return [f"it may borrow {_amount(lack, limit)} at most (borrowingLimit)"]


def _loans(lack: QuotaShortage) -> list[str]:
    if not lack.loans:
        return []
    if len(lack.loans) == 1 and 0 < lack.lent <= lack.loans[0].amount:
        # The rest of its loan is quota of other queues.
        amount = f"{_amount(lack, lack.lent)} of the {_amount(lack, lack.quota)}"
        return [f"{lack.loans[0].queue} has borrowed {amount}"]
    borrowed = [f"{loan.queue} has borrowed {_amount(lack, loan.amount)}" for loan in lack.loans[:_MOST_NAMED]]
    more = [f"and {len(lack.loans) - _MOST_NAMED} more"] if len(lack.loans) > _MOST_NAMED else []
    named = ", ".join([*borrowed, *more])
    if not lack.lent:
        return [named]
    return [f"{_amount(lack, lack.lent)} of the {_amount(lack, lack.quota)} are lent: {named}"]


def _remedy(answer: QueueAnswer) -> str:
    assert answer.problem is not None
    code, lack = answer.problem.code, answer.shortage
    if code is Code.QUEUE_HELD_UP:
        return f"dray queue {answer.queue} lists them"
    if lack is None or lack.wanted > lack.most:
        return _REMEDIES.get(code, "")
    return _eviction_text(lack)


def _eviction_text(lack: QuotaShortage) -> str:
    """Returns whether other pods may be evicted for these, or why not, and what to do about it."""
    wait = f"wait until pods of {_names(lack.loans)} end" if lack.loans else "wait until pods of the queue end"
    if lack.evictions is Evictions.IN_PROGRESS:
        return "pods are being evicted"
    if lack.evictions is Evictions.POSSIBLE:
        return "other pods are evicted for it if it then fits on nodes"
    if lack.evictions is Evictions.BY_SHARE:
        return f"fair shares decide who is evicted for it: {wait}, or raise its weight"
    if lack.evictions is Evictions.NEVER_RECLAIMS:
        return f"nobody is evicted, because reclaimWithinCohort is Never: set it to Any, or {wait}"
    if lack.evictions is Evictions.NO_LOWER_PRIORITY:
        why = "reclaimWithinCohort is LowerPriority, and no borrower has a lower priority"
        return f"nobody is evicted, because {why}: set it to Any, or {wait}"
    if lack.evictions is Evictions.NEVER_PREEMPTS:
        why = "withinClusterQueue is Never, although the queue has pods of lower priority"
        return f"nobody is evicted, because {why}: set it to LowerPriority, or wait until pods of the queue end"
    own = lack.quota - lack.used
    less = f"ask for {_amount(lack, own)} at most, " if 0 < own < lack.wanted else ""
    return f"nobody is evicted for pods that exceed the quota: {wait}, {less}or raise the quota"


def _names(loans: Sequence[Loan]) -> str:
    return " or ".join(loan.queue for loan in loans[:_MOST_NAMED])


def _amount(lack: QuotaShortage, number: float) -> str:
    return amount_text(lack.resource, number)
