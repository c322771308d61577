"""`devices`: the devices of a cluster, each with its state, claims and pods."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from dray.allocation.device_states import STATES, DeviceState, device_states
from dray.answers.cluster import Cluster
from dray.answers.errors import InvalidInput, NotThere
from dray.answers.source import Source
from dray.answers.views.device_sources import PODS, as_v1, device_sources
from dray.answers.views.device_tables import device_document, lines, summary
from dray.api.catalogue import built_in
from dray.api.objects import Object
from dray.api.suggestions import suggestion


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of a cluster, and their states."""

    states: Sequence[DeviceState]

    @property
    def document(self) -> list[Object]:
        """The document that `dray devices -o json` prints."""
        return [device_document(state) for state in self.states]

    @property
    def text(self) -> str:
        """A table with a row for each device, and how many are in which state."""
        return "".join(f"{line}\n" for line in (*lines(list(self.states)), self.summary))

    @property
    def summary(self) -> str:
        """How many devices are in which state."""
        return summary(list(self.states))


def devices(
    cluster: Cluster | None = None,
    *,
    nodes: Collection[str] = (),
    drivers: Collection[str] = (),
    states: Collection[str] = (),
) -> Devices:
    """Returns the devices of a cluster: all of them, or only devices of the given nodes, drivers and states.

    Raises NotThere for a node or driver that does not exist, InvalidInput for an unknown state, and ClientError if the
    server does not answer.
    """
    if unknown := [each for each in states if each not in STATES]:
        raise InvalidInput([f"error: there is no state {unknown[0]!r}; there are: {', '.join(STATES)}"])
    return (cluster or Cluster.from_kubeconfig()).ask(lambda source: find_devices(source, nodes, drivers, states))


async def find_devices(
    source: Source, nodes: Collection[str], drivers: Collection[str], states: Collection[str]
) -> Devices:
    """Returns the devices of the given nodes, drivers and states; an empty collection means all of them."""
    all_devices = await listed_devices(source)
    await _check_nodes(source, nodes, {device.node for device in all_devices})
    _check_drivers(drivers, {device.place[0] for device in all_devices})
    return Devices(
        [
            device
            for device in all_devices
            if (not nodes or device.node in nodes)
            and (not drivers or device.place[0] in drivers)
            and (not states or device.state in states)
        ]
    )


async def _check_nodes(cluster: Source, wanted: Iterable[str], known: set[str]) -> None:
    """Raises NotThere for a node that does not exist; a node without devices is no error."""
    from dray.client.errors import ApiError, NotFound

    for name in wanted:
        if name in known:
            continue
        try:
            await cluster.client.get(built_in("v1", "Node"), name)
        except NotFound:
            raise NotThere([f"node {name} not found; {suggestion(name, filter(None, known))}"]) from None
        except ApiError as error:
            if not error.is_forbidden:
                raise


def _check_drivers(wanted: Iterable[str], known: set[str]) -> None:
    for name in wanted:
        if name not in known:
            raise NotThere([f"no ResourceSlice of driver {name} exists; {suggestion(name, known)}"])


async def listed_devices(cluster: Source) -> list[DeviceState]:
    """Returns all devices of a cluster. Raises NotThere if the server has no devices."""
    from dray.client.errors import ApiError

    client = cluster.client
    sources = await device_sources(client)
    if sources is None:
        raise NotThere(["this server has no resourceslices: it is older than DRA, or DRA is switched off"])
    slices = (await client.list_all(sources.slices))["items"]
    claims = (await client.list_all(sources.claims))["items"]
    rules: list[Object] = []
    if sources.rules is not None:
        try:
            rules = (await client.list_all(sources.rules))["items"]
        except ApiError as error:
            if not error.is_forbidden:
                raise
    pods = (await client.list_all(PODS))["items"]
    return device_states(
        [as_v1(resource_slice, sources.slices, "ResourceSlice") for resource_slice in slices],
        [as_v1(claim, sources.claims, "ResourceClaim") for claim in claims],
        pods,
        rules,
        seen_at=cluster.now(),
    )
