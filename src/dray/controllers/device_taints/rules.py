"""DeviceTaintRules as controllers read them: a rule without a selector means no device.

For the scheduler such a rule means every device; here it must not, since what it did could not be undone.
"""

from __future__ import annotations

import asyncio
from typing import Final

from dray.allocation import taints
from dray.allocation.devices import DeviceID
from dray.api.catalogue import RESOURCE_GROUP
from dray.api.objects import Object
from dray.client.discovery import OptionalInformer
from dray.controllers.environment import Environment

NO_EXECUTE: Final = "NoExecute"
_CRITERIA: Final = frozenset({"driver", "pool", "device"})


def taint_rules(environment: Environment) -> OptionalInformer:
    """Returns the informer of rules, in the newest served version; without one there are no rules."""
    return OptionalInformer(environment.client, environment.informers, RESOURCE_GROUP, "devicetaintrules")


async def follow_rules(taint_rules: OptionalInformer, environment: Environment, group: asyncio.TaskGroup) -> None:
    """Returns when the rules are known; at once, and without any, where the feature is off."""
    if environment.gates["DRADeviceTaintRules"]:
        await taint_rules.start()
        group.create_task(taint_rules.run())


def has_selector(rule: Object) -> bool:
    """Whether the rule says which devices it means, in terms known here.

    Early alphas could also select by class and by expression; to ignore these would be to select too much.
    """
    selector = rule["spec"].get("deviceSelector")
    return selector is not None and not any(selector[name] for name in selector.keys() - _CRITERIA)


def selects(rule: Object, device: DeviceID) -> bool:
    return has_selector(rule) and taints.rule_applies(rule, *device)


def effect_of(rule: Object) -> str:
    return str(rule["spec"]["taint"].get("effect") or "")


def is_evicting(rule: Object) -> bool:
    return effect_of(rule) == NO_EXECUTE and has_selector(rule)


def with_effect(rule: Object, effect: str) -> Object:
    """Returns a copy of the rule with another effect."""
    spec = rule["spec"]
    return {**rule, "spec": {**spec, "taint": {**spec["taint"], "effect": effect}}}
