"""Rows of devices: what a device is, its state and who holds it, and the words that a search finds it by."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from dray.allocation.device_states import DeviceState, amounts
from dray.api.objects import Object, mapping

_MODELS: Final = ("profile", "productName", "tpuGen", "model", "dra.net/pciDevice", "type")
_CPUS: Final = "dra.cpu/cpu"
UNKNOWN: Final = "unknown"
"""The state of a device that no claim holds, as far as a viewer can tell who does not see all claims."""


def key(state: DeviceState) -> str:
    return "/".join(state.place)


def model(state: DeviceState) -> str:
    """What people call this kind of device; that of its driver, if it does not say."""
    return model_of(state.document, state.place[0])


def model_of(device: Object, driver: str) -> str:
    published = mapping(device.get("attributes"))
    for name in _MODELS:
        if isinstance(value := mapping(published.get(name)).get("string"), str):
            return value
    cpus = mapping(mapping(device.get("capacity")).get(_CPUS)).get("value")
    return f"{cpus} CPUs" if cpus else f"device of {driver}"


def shown_state(state: DeviceState, *, sees_all_claims: bool) -> str:
    return UNKNOWN if state.state == "free" and not sees_all_claims else state.state


def row(state: DeviceState, shown: str) -> Object:
    driver, pool, name = state.place
    made: Object = {
        "driver": driver,
        "pool": pool,
        "name": name,
        "node": state.node,
        "model": model(state),
        "state": shown,
        "claims": [each.claim for each in state.holders],
        "pods": sorted({_pod(each.claim, pod) for each in state.holders for pod in each.pods}),
        "taints": [_taint(each) for each in state.taints],
    }
    if state.utilization is not None:
        made["use"] = state.utilization.document()
    return made


def details(state: DeviceState, shown: str) -> Object:
    """The row, and everything that the driver publishes about the device."""
    shares = {
        name: {
            "used": str(used),
            "total": str(total),
            "percent": round(100 * used.as_float() / (total.as_float() or 1)),
        }
        for name, (used, total) in state.used().items()
    }
    return {
        **row(state, shown),
        "attributes": dict(attributes(state.document)),
        "conditions": dict(_conditions(state)),
        "capacity": amounts(state.document),
        "shares": shares,
        "holders": [{"claim": each.claim, "pods": list(each.pods), "text": each.text} for each in state.holders],
    }


def attributes(device: Object) -> Iterator[tuple[str, str]]:
    for name, attribute in mapping(device.get("attributes")).items():
        value = next(iter(mapping(attribute).values()), "")
        yield name, _text(value)


def _conditions(state: DeviceState) -> Iterator[tuple[str, str]]:
    """By the name of the attribute: a selector of the devices that have the same value of it."""
    for name, attribute in mapping(state.document.get("attributes")).items():
        domain, _, short = name.rpartition("/")
        kind, value = next(iter(mapping(attribute).items()), ("", None))
        if kind in ("string", "int", "bool"):
            path = f'device.attributes["{domain or state.place[0]}"].{short}'
            # JSON writes strings, numbers and truth values as CEL does.
            yield name, f"{path} == {json.dumps(value)}"


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def found_by(words: list[str], state: DeviceState, shown: str) -> bool:
    """Whether every word is a part of what is known about the device; attributes are written name=value."""
    texts = [*state.place, state.node, shown, *(each.text for each in state.holders)]
    texts += [pod for each in state.holders for pod in each.pods]
    texts += [f"{name}={value}" for name, value in attributes(state.document)]
    texts += [f"{name}={value}" for name, value in amounts(state.document).items()]
    texts += map(_taint, state.taints)
    whole = "\n".join(texts).lower()
    return all(word in whole for word in words)


def _taint(taint: Object) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def _pod(claim: str, pod: str) -> str:
    """With the namespace of the claim, in which the pod must be."""
    return f"{claim.partition('/')[0]}/{pod}"
