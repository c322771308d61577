"""The tools of the MCP server: their names, arguments and descriptions, as agents see them."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated, Any, Final, Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools.base import Tool
from mcp.types import ToolAnnotations
from pydantic import Field

from dray.allocation.device_states import STATES
from dray.cli.agents.questions import Refused, Subject, answered, quiet
from dray.cli.agents.writes import changed

_SECONDS: Final = 180.0
"""The longest time for one answer."""
_READING: Final = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True)
_WRITING: Final = ToolAnnotations(read_only_hint=False, destructive_hint=True)
_INSTRUCTIONS: Final = """dray answers questions about devices (GPUs, NICs and so on) in a Kubernetes cluster that uses
Dynamic Resource Allocation. To find out why a pod or claim waits, call explain. To find out whether manifests would
fit, and what would help, call plan before anything is submitted. Manifests are always given as YAML text."""

Output = Annotated[Literal["text", "json"], Field(description="text for reading, json for programs")]
Manifests = Annotated[str, Field(description="Kubernetes objects as YAML or JSON text, several with --- between them")]
Names = Sequence[str]
Policy = Annotated[
    Literal["kubernetes", "pack", "pack,power", "spread"], Field(description="the policy of the cluster's scheduler")
]
Confirm = Annotated[bool, Field(description="false: say what would be done; true: do it")]


class _Asking:
    """Has questions answered in another process, one after the other."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._pool: ProcessPoolExecutor | None = None
        self._process = 0
        self._turn = asyncio.Lock()

    async def ask(self, tool: str, output: str, **arguments: Any) -> str:
        loop = asyncio.get_running_loop()
        async with self._turn:
            try:
                pool = await self._started()
                question = loop.run_in_executor(pool, answered, self._subject, tool, arguments, output)
                return await asyncio.wait_for(question, _SECONDS)
            except Refused as error:
                raise ToolError(str(error)) from None
            except BrokenProcessPool:
                self._pool = None
                raise ToolError("the process that answers questions has ended (out of memory?); ask again") from None
            except TimeoutError:
                self._stop()
                raise ToolError(f"no answer within {_SECONDS:.0f} s; ask about fewer pods or machines") from None
            except asyncio.CancelledError:
                # The client no longer wants the answer, and the next question must not wait for it.
                self._stop()
                raise

    async def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=quiet)
            self._process = await asyncio.get_running_loop().run_in_executor(self._pool, os.getpid)
        return self._pool

    def _stop(self) -> None:
        """Ends the process in the middle of its work; the next question starts another one."""
        if self._pool is not None and self._process:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool, self._process = None, 0


def serve(subject: Subject, *, allow_writes: bool) -> None:
    """Answers over standard input and output until the client closes them."""
    asking = _Asking(subject)
    tools = [_tool(question, _READING) for question in (*_questions(asking), *_views(asking))]
    tools += [_tool(change, _WRITING) for change in (_changes(subject) if allow_writes else ())]
    server = MCPServer("dray", instructions=_INSTRUCTIONS, version=version("dray"), tools=tools, log_level="WARNING")
    server.run("stdio")


_Tool = Callable[..., Coroutine[Any, Any, str]]


def _tool(function: _Tool, annotations: ToolAnnotations) -> Tool:
    """Returns a tool that refuses arguments it does not have: an agent would take the answer for what it asked."""
    tool = Tool.from_function(function, annotations=annotations, structured_output=False)
    model = tool.fn_metadata.arg_model
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)
    tool.parameters["additionalProperties"] = False
    return tool


def _questions(asking: _Asking) -> tuple[_Tool, ...]:
    async def explain(
        target: Annotated[str, Field(description="pod/NAME, claim/NAME, podgroup/NAME, job/NAME, deployment/NAME")],
        namespace: Annotated[str, Field(description="default: that of the context")] = "",
        node: Annotated[str, Field(description="consider this node only")] = "",
        manifests: Manifests = "",
        policy: Policy = "kubernetes",
        output: Output = "text",
    ) -> str:
        """Explain why a pod, claim, group or workload has its devices, or why it is pending and what to do.

        The target is looked up in the cluster; with manifests, among those.
        """
        where = {"namespace": namespace, "node": node, "policy": policy}
        return await asking.ask("explain", output, target=target, manifests=manifests, **where)

    async def plan(
        manifests: Manifests = "",
        add: Annotated[Names, Field(description="machines to add, as in 4xp5.48xlarge")] = (),
        drain: Annotated[Names, Field(description="nodes whose pods have to leave")] = (),
        without: Annotated[Names, Field(description="devices that are gone, as in NODE/gpu-0")] = (),
        quota: Annotated[Names, Field(description="other quota, as in team-a=gpu.nvidia.com:+8")] = (),
        seconds: Annotated[float, Field(ge=0, le=60, description="longest search for changes that help")] = 10.0,
        policy: Policy = "kubernetes",
        output: Output = "text",
    ) -> str:
        """Say where pods would go, who would be evicted, and the smallest change that helps if they do not fit.

        Nothing is submitted. Without manifests it plans maintenance: drained nodes, added machines, failed devices.
        """
        changes = {"add": add, "drain": drain, "without": without, "quota": quota}
        return await asking.ask("plan", output, manifests=manifests, seconds=seconds, policy=policy, **changes)

    async def lint(manifests: Manifests, output: Output = "text") -> str:
        """Check manifests: what an API server would reject, and common mistakes that it would accept."""
        return await asking.ask("lint", output, manifests=manifests)

    async def allocate(
        manifests: Manifests,
        node: Annotated[str, Field(description="consider this node only")] = "",
        policy: Policy = "kubernetes",
        output: Output = "text",
    ) -> str:
        """Say which devices the pods and claims of manifests would get, one after the other, or why none."""
        return await asking.ask("allocate", output, manifests=manifests, node=node, policy=policy)

    return explain, plan, lint, allocate


def _views(asking: _Asking) -> tuple[_Tool, ...]:
    async def devices(
        nodes: Annotated[Names, Field(description="only of these nodes")] = (),
        drivers: Annotated[Names, Field(description="only of these drivers")] = (),
        states: Annotated[Names, Field(description=f"only in these states: {', '.join(STATES)}")] = (),
        output: Output = "text",
    ) -> str:
        """List devices, their state, and the claims and pods that use them."""
        return await asking.ask("devices", output, nodes=nodes, drivers=drivers, states=states)

    async def queue(
        name: Annotated[str, Field(description="a queue or cohort, with its waiting pods and their reasons")] = "",
        output: Output = "text",
    ) -> str:
        """Show queues with quota and usage, and the pods that wait in them."""
        return await asking.ask("queue", output, name=name)

    async def topology(
        node: Annotated[str, Field(description="default: all nodes")] = "", output: Output = "text"
    ) -> str:
        """Show the sockets, NUMA nodes and PCIe roots of nodes with their devices."""
        return await asking.ask("topology", output, node=node)

    return devices, queue, topology


def _changes(subject: Subject) -> tuple[_Tool, ...]:
    async def apply(manifests: Manifests, confirm: Confirm = False) -> str:
        """Create or update objects. Without confirm the server only checks them, and nothing is changed."""
        return await _changed(subject, ["apply", "-f", "-"], manifests, confirm)

    async def delete(manifests: Manifests, confirm: Confirm = False) -> str:
        """Delete the objects that the manifests name. Without confirm nothing is deleted."""
        return await _changed(subject, ["delete", "-f", "-", "--no-wait"], manifests, confirm)

    return apply, delete


async def _changed(subject: Subject, command: list[str], manifests: str, confirm: bool) -> str:
    try:
        return await changed(subject, command, manifests, confirm=confirm)
    except Refused as error:
        raise ToolError(f"nothing more was changed: {error}") from None
