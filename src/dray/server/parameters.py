"""Query parameters, read as Go reads them (a number or a duration that is none is an error), and write options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

import msgspec

from dray.api import errors
from dray.api.caches import remember
from dray.api.errors import FieldError
from dray.server import status
from dray.server.requests import Request

_WHOLE = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_DURATION = re.compile(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_WITHOUT_UNIT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)", re.ASCII)

EMPTY: Mapping[str, str] = {}
# Limit of requirements in a selector: each is checked for every object, in lists and in watch events.
MAX_REQUIREMENTS = 1000
_VALIDATIONS = ("", "Ignore", "Warn", "Strict")
_MANAGER_LENGTH = 128


@remember(2048, longest=1024)
def parse(query: str) -> Mapping[str, str]:
    """Parses the query; of duplicate parameters the first is used."""
    if not query:
        return EMPTY
    found: dict[str, str] = {}
    try:
        for name, value in parse_qsl(query, keep_blank_values=True, max_num_fields=200):
            found.setdefault(name, value)
    except ValueError as error:
        raise status.bad_request(f"the query cannot be read: {error}") from error
    return found


def boolean(parameters: Mapping[str, str], name: str) -> bool | None:
    """Returns a flag as Kubernetes reads it: anything but `0` and `false` is true; None if it is missing."""
    value = parameters.get(name)
    return None if value is None else value != "0" and value.lower() != "false"


def whole_number(parameters: Mapping[str, str], name: str) -> int | None:
    value = parameters.get(name)
    if value is None:
        return None
    if _WHOLE.fullmatch(value) is None:
        raise status.bad_request(f"strconv.ParseInt: parsing {_quoted(value)}: invalid syntax")
    if not -(2**63) <= int(value) < 2**63:
        raise status.bad_request(f"strconv.ParseInt: parsing {_quoted(value)}: value out of range")
    return int(value)


def check_timeout(parameters: Mapping[str, str]) -> None:
    """Refuses an invalid `timeout`, which other requests than watches may have; no request takes that long here."""
    value = parameters.get("timeout")
    if not value or _DURATION.fullmatch(value) is not None:
        return
    problem = "missing unit in" if _WITHOUT_UNIT.fullmatch(value) is not None else "invalid"
    raise status.bad_request(
        f"invalid timeout specified in the request URL - time: {problem} duration {_quoted(value)}"
    )


def _quoted(value: str) -> str:
    return '"' + value[:100].replace("\\", "\\\\").replace('"', '\\"') + '"'


class WriteOptions(msgspec.Struct, frozen=True):
    dry_run: bool = False
    # Ignore, Warn or Strict: how unknown fields are treated.
    field_validation: str = "Warn"
    # The owner of the fields; empty if the client did not say.
    field_manager: str = ""
    user_agent: str = ""
    force: bool | None = None

    @property
    def strict(self) -> bool:
        return self.field_validation == "Strict"


def write_options(request: Request, query: Mapping[str, str], kind: str) -> WriteOptions:
    """Reads the options of a write; `kind` (CreateOptions, UpdateOptions or PatchOptions) is used in errors."""
    agent = request.headers.get("user-agent", "")
    if not query:
        return WriteOptions(user_agent=agent)
    problems = dry_run_problems(query)
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        problems.append(errors.not_supported("fieldValidation", validation, list(_VALIDATIONS)))
    manager = query.get("fieldManager", "")
    if len(manager) > _MANAGER_LENGTH:
        problems.append(errors.too_long("fieldManager", _MANAGER_LENGTH))
    if not manager.isprintable():
        problems.append(errors.invalid("fieldManager", manager, "should only contain printable characters"))
    if problems:
        raise status.invalid(kind, "meta.k8s.io", "", problems)
    return WriteOptions(
        dry_run=bool(query.get("dryRun")),
        field_validation=validation or "Warn",
        field_manager=manager,
        user_agent=agent,
        force=boolean(query, "force"),
    )


def dry_run_problems(query: Mapping[str, str]) -> list[FieldError]:
    given = query.get("dryRun", "")
    return [] if given in ("", "All") else [errors.not_supported("dryRun", [given], ["All"])]
