"""The address of `dray up`: what the command line says, else what it said at the last start with the same directory.

Machines that have joined, and kubeconfigs that were handed out, look for the cluster where it was. The file is written
once the server listens, and stays when it ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

if TYPE_CHECKING:
    from dray.server.running import Options

_FILE: Final = "address.json"
_EVERYWHERE: Final = "0.0.0.0"


class Address(msgspec.Struct, frozen=True, omit_defaults=True):
    """A field that is left out is that of a start without the option."""

    bind: str = ""
    port: int = 0
    names: tuple[str, ...] = ()


def remembered(data: Path | None) -> Address:
    """Returns the address of the last start; an empty one if it cannot be read."""
    if data is None:
        return Address()
    try:
        return msgspec.json.decode((data / _FILE).read_bytes(), type=Address)
    except (OSError, msgspec.DecodeError):
        return Address()


def remember(options: Options) -> None:
    """Stores the server's address. Plain HTTP is not stored: it is on loopback and for one run."""
    if options.data is not None and not options.plain:
        made = (options.data / _FILE).with_suffix(".new")
        made.write_bytes(msgspec.json.encode(Address(options.bind, options.port, options.names)))
        made.rename(options.data / _FILE)


def resolved(data: Path | None, given: dict[str, Any], *, join_token: bool) -> dict[str, Any]:
    """The options with `bind`, `port` and `names` among them: those that were not given are the remembered ones, but
    for port 0, any that is free. Machines that join reach all addresses of this one, unless one was ever chosen."""
    if join_token and given["plain"]:
        raise click.UsageError("--join-token needs TLS: leave out --plain")
    known = Address() if given["plain"] else remembered(data)
    if join_token and known.bind in ("", given["bind"]):
        known = msgspec.structs.replace(known, bind=_EVERYWHERE)
    found = {name: value for name, value in msgspec.structs.asdict(known).items() if value and not _is_given(name)}
    return {**given, **found}


def _is_given(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source is not None and source.name != "DEFAULT"
