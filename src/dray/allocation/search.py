"""The search: the first complete assignment in the order of Kubernetes, found without walking through its whole tree.

Requests are served one after the other, claim by claim; within a request devices are picked by ascending rank; an
alternative of `firstAvailable` is left only when nothing that follows can be served with it. So the answer is the
lexicographically first assignment. The stack of frames is explicit: one frame a pick, no recursion.

Once the search has stumbled, `Pruning` cuts subtrees that hold no solution, which leaves the first solution what it
is. It is not consulted where Kubernetes might still meet a fault that ends the attempt. Past the limit of the work
`WorkExhausted` is raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.allocation.picks import Pick, Picks
from dray.allocation.requests import Choice, Request, Task, title
from dray.allocation.work import AllocationError, Work
from dray.api.resource_claims import MAX_DEVICES

if TYPE_CHECKING:
    from dray.allocation.pruning import Pruning

# Failures before pruning, looking closer, and looking ahead are worth their price.
_PATIENCE: Final = 2
_MORE_PATIENCE: Final = 10
_LONG_PATIENCE: Final = 25
# Units of work for one device considered, with its frame.
_CANDIDATE: Final = 6


class Frame:
    """One place in the assignment: the device at `index` of a request, and the devices not yet tried there."""

    __slots__ = (
        "checked",
        "choice",
        "index",
        "last",
        "left",
        "option",
        "oversized",
        "picked",
        "start",
        "state",
        "surely_oversized",
    )

    def __init__(self, choice: int, option: int, index: int, start: int) -> None:
        self.choice, self.option, self.index, self.start = choice, option, index, start
        self.left = 0
        self.last = -1
        self.picked = False
        self.checked = 0
        """How thoroughly pruning has looked at it."""
        self.state: Any = None
        """Pruning's key of the frame; None until pruning has seen the frame."""
        self.oversized = False
        """True if this alternative failed because the claim would exceed the device limit."""
        self.surely_oversized = True
        """True if every earlier alternative also failed by exceeding the device limit."""


class Search:
    """Looks for picks for all choices of a task."""

    def __init__(self, task: Task, picks: Picks, work: Work) -> None:
        self._task = task
        self._picks = picks
        self._work = work
        self._choices = task.choices
        self._frames: list[Frame] = []
        self._failures = 0
        self._safe_from = _safe_from(self._choices, task.held)
        self._pruning: Pruning | None = None

    def run(self) -> list[Pick] | None:
        """Returns the picks of the first solution, or None. Raises AllocationError and WorkExhausted."""
        if not self._choices:
            return []
        self._push(Frame(0, 0, 0, 0))
        while self._frames:
            frame = self._frames[-1]
            if frame.picked:
                self._picks.undo()
                frame.picked = False
                self._stumble()
                frame = self._frames[-1]
            rank = self._next(frame)
            if rank is None:
                self._exhausted(frame)
                continue
            self._picks.take(self._choices[frame.choice], frame.option, rank)
            frame.picked = True
            following = self._following(frame, rank)
            if following is None:
                return self._picks.made
            self._push(following)
        return None

    def replay(self, wanted: Sequence[tuple[Choice, int, int]]) -> list[Pick] | None:
        """Returns the wanted picks, in order, if they are a solution, else None. Raises like `run`."""
        for choice, option, rank in wanted:
            request = choice.options[option]
            usable = request.candidates if request.listed is not None else self._open_devices(request, choice.claim)
            takes = self._takes if request.listed is None else self._takes_listed
            self._work.spend(_CANDIDATE)
            if not usable >> rank & 1 or not takes(request, choice.claim, rank):
                return None
            self._picks.take(choice, option, rank)
        served: dict[int, list[Pick]] = {}
        for pick in self._picks.made:
            served.setdefault(pick.choice.number, []).append(pick)
        for choice in self._choices:
            own = served.get(choice.number) or []
            ranks = {pick.rank for pick in own}
            if not own or len({pick.option for pick in own}) > 1 or not own[0].request.need == len(own) == len(ranks):
                return None
        return self._picks.made if max(self._picks.sizes, default=0) <= MAX_DEVICES else None

    def _stumble(self) -> None:
        self._failures += 1
        if self._failures == _PATIENCE:
            # Most searches never stumble and never need it.
            from dray.allocation.pruning import Pruning

            self._pruning = Pruning(self._task, self._choices, self._picks, self._work)
        elif self._pruning is not None and self._failures == _MORE_PATIENCE:
            self._pruning.look_closer()
        elif self._pruning is not None and self._failures == _LONG_PATIENCE and self._pruning.look_ahead():
            self._begin_again()

    def _begin_again(self) -> None:
        """Restarts at the first pick: if there is no solution, pruning finds out there without a search below."""
        while self._picks.made:
            self._picks.undo()
        self._frames.clear()
        self._push(Frame(0, 0, 0, 0))

    def _following(self, frame: Frame, rank: int) -> Frame | None:
        if frame.index + 1 < self._choices[frame.choice].options[frame.option].need:
            return Frame(frame.choice, frame.option, frame.index + 1, rank + 1)
        return Frame(frame.choice + 1, 0, 0, 0) if frame.choice + 1 < len(self._choices) else None

    def _push(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._open(frame)

    def _open(self, frame: Frame) -> None:
        """Finds the devices to try in the frame with its present alternative."""
        choice = self._choices[frame.choice]
        request = choice.options[frame.option]
        frame.checked, frame.state, frame.last = 0, None, -1
        if frame.index == 0:
            frame.oversized = self._picks.sizes[choice.claim] + request.need > MAX_DEVICES
        if frame.oversized:
            frame.left = 0
        elif request.listed is not None:
            frame.left = 1 << request.listed[frame.index] if request.listed else 0
        else:
            frame.left = self._open_devices(request, choice.claim) >> frame.start << frame.start

    def _open_devices(self, request: Request, claim: int) -> int:
        """Returns the free candidates that the constraints admit, and the devices on which the request faults."""
        bits = request.candidates
        late = False
        for constraint in request.constraints:
            bits &= constraint.mask(request)
            late = late or request in constraint.faults
        if late:
            bits = request.candidates
        for rank in request.faults:
            bits |= 1 << rank
        return bits & ~self._in_use(request, claim)

    def _in_use(self, request: Request, claim: int) -> int:
        return self._picks.taken_by[claim] if request.admin else self._task.held | self._picks.taken

    def _next(self, frame: Frame) -> int | None:
        """Returns the next device that can be picked in the frame."""
        choice = self._choices[frame.choice]
        request = choice.options[frame.option]
        pruning = self._pruning if frame.choice >= self._safe_from else None
        if pruning is not None:
            self._prune(pruning, frame)
        while frame.left:
            low = frame.left & -frame.left
            frame.left ^= low
            rank = frame.last = low.bit_length() - 1
            self._work.spend(_CANDIDATE)
            takes = self._takes if request.listed is None else self._takes_listed
            if takes(request, choice.claim, rank):
                return rank
            if pruning is not None:
                frame.left &= ~self._alike(pruning, frame)
        return None

    def _alike(self, pruning: Pruning, frame: Frame) -> int:
        """Returns the devices that are interchangeable with the failed one and need not be tried."""
        if not frame.left:
            return 0
        picks = self._picks
        return pruning.alike(frame.last, (frame.left | 1 << frame.last, picks.taken, *picks.taken_by))

    def _prune(self, pruning: Pruning, frame: Frame) -> None:
        if frame.last >= 0:
            frame.left &= ~self._alike(pruning, frame)
        if frame.left and frame.checked < pruning.depth:
            frame.checked = pruning.depth
            frame.state = pruning.state(frame)
            frame.left = pruning.narrowed(frame)

    def _takes(self, request: Request, claim: int, rank: int) -> bool:
        if rank in request.faults:
            raise AllocationError(request.faults[rank])
        if not self._picks.has_capacity(request, rank) or not self._picks.has_counters(rank):
            return False
        for constraint in request.constraints:
            if constraint.faults:
                fault = constraint.faults.get(request, {}).get(rank)
                if fault is not None:
                    raise AllocationError(fault)
                if not constraint.mask(request) >> rank & 1:
                    return False
        return True

    def _takes_listed(self, request: Request, claim: int, rank: int) -> bool:
        """Returns True if a device can be picked (mode All). Raises AllocationError if a constraint refuses it."""
        usable = request.candidates & ~self._in_use(request, claim)
        if not usable >> rank & 1 or not self._picks.has_counters(rank):
            return False
        for constraint in request.constraints:
            fault = constraint.faults.get(request, {}).get(rank)
            if fault is not None:
                raise AllocationError(fault)
            if not constraint.mask(request) >> rank & 1:
                device = "/".join(self._task.view.devices[rank].id)
                raise AllocationError(
                    f"claim {title(self._task.claims[claim])}, request {request.parent}: cannot add device {device} "
                    "because a claim constraint would not be satisfied"
                )
        return self._picks.has_capacity(request, rank)

    def _exhausted(self, frame: Frame) -> None:
        """Goes on to the next alternative, or back to the pick before."""
        choice = self._choices[frame.choice]
        if self._pruning is not None and frame.state is not None and not frame.oversized:
            self._pruning.remember(frame.state)
        if frame.index == 0:
            frame.surely_oversized = frame.surely_oversized and frame.oversized
            frame.option += 1
            if frame.option < len(choice.options):
                self._open(frame)
                return
        self._frames.pop()
        # The request before may not be part of this search.
        if frame.index == 0 and frame.surely_oversized and not choice.first and self._frames:
            self._leave_alternative()

    def _leave_alternative(self) -> None:
        """Gives up the current alternative of the previous request: only another one has another number of devices."""
        while self._frames[-1].index:
            self._picks.undo()
            self._frames.pop()
        self._picks.undo()
        frame = self._frames[-1]
        frame.picked, frame.left, frame.oversized = False, 0, True


def _safe_from(choices: Sequence[Choice], held: int) -> int:
    """Returns the first choice from which on no fault can end the attempt."""
    for number in range(len(choices), 0, -1):
        for option in choices[number - 1].options:
            late = any(option in constraint.faults for constraint in option.constraints)
            open_faults = any(option.admin or not held >> rank & 1 for rank in option.faults)
            if late or open_faults or (option.listed and option.constraints):
                return number
    return 0
