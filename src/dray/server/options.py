"""Write options: dry run, field validation, field manager."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dray.api import errors
from dray.api.errors import FieldError
from dray.server import parameters, status
from dray.server.requests import Request

_VALIDATIONS = ("", "Ignore", "Warn", "Strict")
_MANAGER_LENGTH = 128


class WriteOptions(msgspec.Struct, frozen=True):
    dry_run: bool = False
    # Ignore, Warn or Strict: what happens to members that the kind does not have.
    field_validation: str = "Warn"
    # Who is to own the fields; empty where the client did not say.
    field_manager: str = ""
    user_agent: str = ""
    force: bool | None = None

    @property
    def strict(self) -> bool:
        return self.field_validation == "Strict"


def write_options(request: Request, query: Mapping[str, str], kind: str) -> WriteOptions:
    """`kind` is CreateOptions, UpdateOptions or PatchOptions: what a refusal calls them."""
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
        force=parameters.boolean(query, "force"),
    )


def dry_run_problems(query: Mapping[str, str]) -> list[FieldError]:
    given = query.get("dryRun", "")
    return [] if given in ("", "All") else [errors.not_supported("dryRun", [given], ["All"])]
