"""Recovery: the machine is brought to what the records of claims say, after the driver or a daemon has died.

A record that cannot be read may hold anything: while there is one, nothing that seems to belong to nobody is
destroyed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from dray.driver import DriverError, RecordedClaims
from dray.drivers.gpu.claim_state import RecordedState, recorded_states
from dray.drivers.gpu.discovery import FoundGpu
from dray.drivers.gpu.machine_changes import MachineChanges
from dray.drivers.gpu.mps import claim_of

_logger = logging.getLogger(__name__)


class Recovery:
    def __init__(self, changes: MachineChanges, recorded_claims: Callable[[], RecordedClaims]) -> None:
        self._changes = changes
        self._recorded_claims = recorded_claims

    def recover(self, cut: Sequence[FoundGpu]) -> None:
        """At the start; `cut` are the GPUs whose partitions are made for claims."""
        records = self._recorded_claims()
        if records.unreadable:
            _logger.error("records of claims %s cannot be read: nothing is cleaned up", ", ".join(records.unreadable))
        else:
            self._destroy_partitions(cut, recorded_states(records.claims))
        self.supervise()

    def supervise(self) -> None:
        """Daemons of claims run, and no others. In a rolling update the other driver may be stopping one just now:
        if it is started again here, it is found to belong to nobody the next time."""
        records = self._recorded_claims()
        states = recorded_states(records.claims)
        if not records.unreadable:
            self._stop_daemons({each.reference.uid for each in states})
        self._restart_daemons(states)

    def _restart_daemons(self, states: Sequence[RecordedState]) -> None:
        """Clients of a daemon that died have lost their work, and can start anew."""
        for each in states:
            for daemon in each.state.mps if each.is_complete else ():
                if self._changes.mps.is_running(daemon.id):
                    continue
                _logger.warning("the MPS daemon of claim %s has died: it is started again", each.reference)
                try:
                    self._changes.mps.start(daemon)
                except (DriverError, OSError) as error:
                    _logger.error("the MPS daemon of claim %s cannot be started: %s", each.reference, error)

    def _destroy_partitions(self, cut: Sequence[FoundGpu], states: Sequence[RecordedState]) -> None:
        kept = [partition for each in states for partition in each.state.partitions]
        for found in cut:
            try:
                destroyed = self._changes.partitions.destroy_unknown(
                    found.gpu.uuid, kept, found.gpu.model.keeps_mig_mode
                )
            except (DriverError, OSError) as error:
                _logger.error("%s has partitions of no claim that cannot be destroyed: %s", found.gpu.name, error)
                continue
            for each in destroyed:
                _logger.warning("%s: destroyed %s, which belonged to no claim", found.gpu.name, each)

    def _stop_daemons(self, claims: set[str]) -> None:
        for daemon_id in self._changes.mps.ids():
            if claim_of(daemon_id) in claims:
                continue
            try:
                self._changes.mps.stop_unknown(daemon_id)
            except (DriverError, OSError) as error:
                _logger.error("MPS daemon %s belongs to no claim and cannot be stopped: %s", daemon_id, error)
