"""`dray status`: how the cluster of a data directory fares: its parts, nodes, pods and devices."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dray.cli.cluster import Where, complain, complain_unasked, endpoint_of
from dray.cli.down import data_option, other_clusters
from dray.cli.output_formats import output_option, structured
from dray.process import up_state

if TYPE_CHECKING:
    from dray.api.objects import Object
    from dray.client.api import ApiClient
    from dray.client.transport import Transport
    from dray.process.up_state import UpState

_CHECK: Final = re.compile(r"\[[-+!]\](?P<name>.+?) (?:failed: )?(?P<said>.+)")
_LONGEST_LIST: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """`parts` gives the problem of each, empty where it works; `nodes` whether each is ready."""

    url: str
    pid: int
    since: str
    kubeconfig: str
    parts: dict[str, str]
    nodes: dict[str, bool]
    pods: dict[str, int]
    devices: dict[str, int]

    @property
    def well(self) -> bool:
        return not any(self.parts.values()) and all(self.nodes.values())


@click.command()
@data_option
@output_option("text", "json", "yaml")
def status(data: Path | None, output: str) -> None:
    """Show the state of the cluster that `dray up` runs.

    Without --data it shows the cluster of ~/.local/share/dray, or the only one that runs on this machine.

    \b
    Examples:
      dray status
      dray status --data ~/lab -o json

    Exit status: 0 everything is healthy, 1 a component or node is not, 2 no cluster runs or it does not answer.
    """
    from dray.client.errors import ApiError, ClientError

    place = data or up_state.default_data()
    state = up_state.read(place)
    if state is None and data is None and len(others := up_state.running()) == 1:
        state = others[0]
    if state is None:
        text = f"no cluster runs with {place}{'' if data else other_clusters()}\n"
        click.echo(text if output == "text" else _structured({"running": False}, output), nl=False)
        sys.exit(2)
    try:
        found = asyncio.run(_ask(state))
    except ApiError as error:
        complain(error)
        sys.exit(2)
    except ClientError as error:
        complain_unasked(error, state.url)
        sys.exit(2)
    document = {"running": True, "well": found.well, **asdict(found)}
    click.echo(f"{_text(found)}\n" if output == "text" else _structured(document, output), nl=False)
    sys.exit(0 if found.well else 1)


def _structured(document: Object, output: str) -> str:
    """Returns JSON on one line, or another format."""
    return f"{json.dumps(document)}\n" if output == "json" else structured(document, output)


async def _ask(state: UpState) -> Status:
    from dray.client.api import ApiClient
    from dray.client.http import HttpTransport
    from dray.client.retries import Retries

    transport = HttpTransport(endpoint_of(Where(Path(state.kubeconfig), "", "")))
    async with ApiClient(transport, retries=Retries(attempts=2)) as client:
        nodes = await _list(client, "v1", "Node")
        pods = await _list(client, "v1", "Pod")
        parts = await _parts(transport)
        devices = await _devices(client)
    return Status(
        url=state.url,
        pid=state.pid,
        since=state.since,
        kubeconfig=state.kubeconfig,
        parts=parts,
        nodes=_readiness(nodes),
        pods=_phases(pods),
        devices=devices,
    )


async def _list(client: ApiClient, api_version: str, kind: str) -> list[Object]:
    from dray.api.catalogue import built_in

    items: list[Object] = (await client.list_all(built_in(api_version, kind)))["items"]
    return items


async def _parts(transport: Transport) -> dict[str, str]:
    from dray.client.transport import Request

    answer = await transport.send(Request("GET", "/readyz", {"verbose": "true"}))
    checks = (_CHECK.fullmatch(line) for line in answer.body.decode(errors="replace").splitlines())
    return {check["name"]: "" if check["said"] == "ok" else check["said"] for check in checks if check}


def _readiness(nodes: list[Object]) -> dict[str, bool]:
    from dray.api.objects import is_true

    return {node["metadata"]["name"]: is_true(node, "Ready") for node in nodes}


def _phases(pods: list[Object]) -> dict[str, int]:
    from dray.api.objects import status_of

    return dict(Counter(str(status_of(pod).get("phase") or "Unknown") for pod in pods))


async def _devices(client: ApiClient) -> dict[str, int]:
    """How many are published, and how many of them some claim has; shared ones count once."""
    from dray.api.objects import mapping, spec_of
    from dray.api.resource_claims import devices_of

    slices = await _list(client, "resource.k8s.io/v1", "ResourceSlice")
    claims = await _list(client, "resource.k8s.io/v1", "ResourceClaim")
    there = {
        (spec_of(slice_).get("driver"), mapping(spec_of(slice_).get("pool")).get("name"), device["name"])
        for slice_ in slices
        for device in spec_of(slice_).get("devices") or ()
    }
    held = {place for claim in claims for place in devices_of(claim)}
    return {"published": len(there), "allocated": len(there & held)}


def _text(found: Status) -> str:
    troubles = {name: why for name, why in found.parts.items() if why}
    parts = [*(name for name in found.parts if name not in troubles)]
    ready = [name for name, is_ready in found.nodes.items() if is_ready]
    rows = [
        ("cluster", f"{found.url}, process {found.pid} since {found.since}"),
        ("kubeconfig", found.kubeconfig),
        ("parts", f"{len(parts)} of {len(found.parts)} work"),
        *(("", f"{name}: {why}") for name, why in troubles.items()),
        ("nodes", f"{len(ready)} of {len(found.nodes)} ready{_named(found.nodes, ready)}"),
        ("pods", ", ".join(f"{number} {phase}" for phase, number in sorted(found.pods.items())) or "none"),
        ("devices", f"{found.devices['allocated']} of {found.devices['published']} allocated"),
    ]
    return "\n".join(f"{name:<12}{text}" for name, text in rows)


def _named(nodes: dict[str, bool], ready: list[str]) -> str:
    """Names the nodes that are not ready; if all are, names them only if they are few."""
    missing = [name for name in nodes if name not in ready]
    shown = missing or ready
    if not shown or (not missing and len(shown) > _LONGEST_LIST):
        return ""
    rest = f" and {len(shown) - _LONGEST_LIST} more" if len(shown) > _LONGEST_LIST else ""
    return f"{'; not ready' if missing else ''}: {', '.join(shown[:_LONGEST_LIST])}{rest}"
