"""Query parameters, read as Go reads them: the last word of a boolean decides, a number that is none is an error."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from dray.api.caches import remember
from dray.server import status

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})

EMPTY: Mapping[str, str] = {}


@remember(2048, longest=1024)
def parse(query: str) -> Mapping[str, str]:
    """The parameters by name; of one that is given twice the first counts."""
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
    """As Kubernetes converts query parameters: anything but the words for false means true."""
    value = parameters.get(name)
    if value is None:
        return None
    return value not in _FALSE and value.lower() != "false"


def whole_number(parameters: Mapping[str, str], name: str) -> int | None:
    value = parameters.get(name)
    if value is None or value == "":
        return None
    try:
        number = int(value)
    except ValueError:
        number = None
    if number is None or not -(2**63) <= number < 2**63:
        raise status.bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax')
    return number
