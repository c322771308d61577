"""Opaque configuration: strict decoding, class before claim, requests and their alternatives."""

from typing import Any

import pytest

from dray.driver import Config
from dray.driver.claims import allocated_devices
from dray.driver.configs import decode, decode_entries
from dray.driver.errors import InvalidConfig

DRIVER = "lamps.example.com"


class LampConfig(Config):
    api_version = "lamps.example.com/v1"
    max_brightness: int = 100

    def validate(self) -> None:
        if self.max_brightness > 100:
            raise ValueError("maxBrightness must be at most 100")


class Other(Config):
    api_version = "lamps.example.com/v1"
    kind = "OtherConfig"
    name: str


class Bare(Config):
    level: int = 0


class Fluorescent(Config):
    api_version = "lamps.example.com/v1"
    refusal = "these lamps are not made any more"


TYPES = (LampConfig, Other, Bare, Fluorescent)


def parameters(brightness: int) -> dict[str, Any]:
    return {"apiVersion": "lamps.example.com/v1", "kind": "LampConfig", "maxBrightness": brightness}


def entry(source: str, brightness: int, *requests: str, driver: str = DRIVER) -> dict[str, Any]:
    made = {"source": source, "opaque": {"driver": driver, "parameters": parameters(brightness)}}
    return {**made, "requests": list(requests)} if requests else made


def brightness_of(config: list[dict[str, Any]], request: str) -> int | None:
    result = {"driver": DRIVER, "pool": "p", "device": "d", "request": request}
    allocation = {"devices": {"results": [result], "config": config}}
    (device,) = allocated_devices(allocation, DRIVER, decode_entries(allocation, DRIVER, TYPES))
    found = device.config(LampConfig)
    return found and found.max_brightness


def test_parameters_become_the_type_of_their_kind() -> None:
    assert decode(parameters(7), TYPES, "here") == LampConfig(max_brightness=7)
    assert decode({"apiVersion": "lamps.example.com/v1", "kind": "OtherConfig", "name": "x"}, TYPES, "") == Other(
        name="x"
    )
    assert decode({"level": 3}, TYPES, "") == Bare(level=3)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**parameters(7), "bright": 1}, "unknown field `bright`"),
        (parameters(7) | {"maxBrightness": "7"}, "Expected `int`, got `str`"),
        (parameters(101), "maxBrightness must be at most 100"),
        (
            {"apiVersion": "v9", "kind": "LampConfig"},
            "v9 LampConfig is not known; the driver takes lamps.example.com/v1 LampConfig, "
            "lamps.example.com/v1 OtherConfig, parameters without apiVersion and kind",
        ),
        (
            {"apiVersion": "lamps.example.com/v1", "kind": "Fluorescent", "tube": 1},
            "Fluorescent: these lamps are not made any more",
        ),
        ({"apiVersion": "lamps.example.com/v1", "kind": "OtherConfig"}, "missing required field `name`"),
    ],
)
def test_what_is_wrong_with_parameters_is_said_with_its_place(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        decode(given, TYPES, "status.allocation.devices.config[0]")
    assert str(raised.value).startswith("status.allocation.devices.config[0]")
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("config", "request_name", "expected"),
    [
        ([], "lamp", None),
        ([entry("FromClass", 1)], "lamp", 1),
        ([entry("FromClass", 1), entry("FromClass", 2)], "lamp", 2),
        # The claim wins over the class wherever it stands.
        ([entry("FromClaim", 3), entry("FromClass", 1)], "lamp", 3),
        ([entry("FromClaim", 3), entry("FromClaim", 4, "other")], "lamp", 3),
        ([entry("FromClaim", 3), entry("FromClaim", 4, "lamp")], "lamp", 4),
        ([entry("FromClaim", 4, "lamp")], "lamp/large", 4),
        ([entry("FromClaim", 4, "lamp/large")], "lamp/small", None),
        ([entry("FromClaim", 4, "lamp/large")], "lamp/large", 4),
        ([entry("FromClaim", 4, driver="another.example.com")], "lamp", None),
    ],
)
def test_the_last_entry_that_applies_counts(
    config: list[dict[str, Any]], request_name: str, expected: int | None
) -> None:
    assert brightness_of(config, request_name) == expected


def test_entries_that_name_the_request_are_told_from_those_for_all() -> None:
    config = [entry("FromClass", 1, "lamp"), entry("FromClaim", 2), entry("FromClaim", 3, "lamp/large")]
    results = [{"request": name, "driver": DRIVER, "pool": "p", "device": "d"} for name in ("lamp/large", "other")]
    allocation = {"devices": {"results": results, "config": config}}
    large, other = allocated_devices(allocation, DRIVER, decode_entries(allocation, DRIVER, TYPES))
    assert [each.max_brightness for each in large.named_configs if isinstance(each, LampConfig)] == [1, 3]
    assert (len(large.configs), len(other.configs), other.named_configs) == (3, 1, ())
