"""Tries: plays changes of one scene, each from a scheduler that is filled once.

Where the process can be forked, each change is played in a copy of it; otherwise each is played from the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from dray.api.objects import Object, key_of
from dray.planning.changes import Change, ChangeError
from dray.planning.forked import forked, workers
from dray.planning.playing import Evicted, Stage, play
from dray.planning.scene import Scene
from dray.scheduling.scheduler import Options


@dataclass(frozen=True, slots=True)
class Tried:
    fits: bool
    evicted: tuple[Evicted, ...] = ()


class Tries:
    def __init__(self, scene: Scene, options: Options) -> None:
        self._scene = scene
        self._options = options
        self._stage: Stage | None = None
        self._workers = workers()

    @property
    def at_a_time(self) -> int:
        return max(1, self._workers)

    def outcomes(self, changes: Sequence[Change], seconds: float) -> list[Tried | None]:
        """Returns what came of each change; None if it cannot be made or took too long."""
        if not self._workers:
            return [self._from_the_beginning(each) for each in changes]
        if self._stage is None:
            self._stage = Stage(self._scene, self._options)
        return forked([partial(self.from_stage, self._stage, change) for change in changes], seconds)

    def _from_the_beginning(self, change: Change) -> Tried | None:
        try:
            played = play(change.apply(self._scene), self._options)
        except ChangeError:
            return None
        return Tried(played.fits, played.evicted)

    def from_stage(self, stage: Stage, change: Change) -> Tried:
        """Plays the change on a stage, which is used up by that. Raises ChangeError."""
        changed = change.apply(self._scene)
        for kind, objects in changed.cluster.items():
            before = self._scene.cluster.get(kind, ())
            if objects is not before:
                _move(stage, kind, before, objects)
        stage.evict({key: why for key, why in changed.evicted.items() if key not in self._scene.evicted})
        played = stage.finish(changed)
        return Tried(played.fits, played.evicted)


def _move(stage: Stage, kind: str, before: Sequence[Object], after: Sequence[Object]) -> None:
    """Tells the scheduler what is different."""
    known = {key_of(each): each for each in before}
    wanted = {key_of(each): each for each in after}
    for key, each in known.items():
        if key not in wanted:
            stage.player.stored.change(kind, each, stage.player.now, gone=True)
    for key, each in wanted.items():
        if known.get(key) is not each:
            stage.player.stored.change(kind, each, stage.player.now)
