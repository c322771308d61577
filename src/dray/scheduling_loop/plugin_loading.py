"""Plugins of users, found and loaded: those named on the command line and those that installed packages offer.

A package offers plugins as entry points of the group `dray.scheduler_plugins`; all of them are used, unless `-NAME` or
`-*` says otherwise. What is named is `module:Class`, `file.py:Class` or the name of an entry point. A plugin that
cannot be loaded is left out and reported: the scheduler goes on without it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

from dray.scheduling.core.guarded_plugin import Budget, Overrun, UnloadedPlugin, Watchdog
from dray.scheduling.core.plugin_answers import InvalidAnswer, check_declaration
from dray.scheduling.model import faults
from dray.scheduling.plugin import Plugin
from dray.scheduling.plugins import names

GROUP: Final = "dray.scheduler_plugins"
_SECONDS: Final = 10.0


@dataclass(slots=True)
class LoadedPlugins:
    plugins: list[Plugin] = field(default_factory=list)
    unloaded: list[UnloadedPlugin] = field(default_factory=list)


def load(asked: Iterable[str], watchdog: Watchdog) -> LoadedPlugins:
    """In the order in which they are asked for; entry points that nobody named come first, by their names."""
    loaded = LoadedPlugins()
    for name, find in _wanted(tuple(asked)).items():
        try:
            plugin = check_declaration(watchdog.call(Budget(_SECONDS), _made, find))
            if plugin.name in names() or any(plugin.name == each.name for each in loaded.plugins):
                raise InvalidAnswer(
                    f"there is another plugin of the name {plugin.name}; give its class a name of its own"
                )
            loaded.plugins.append(plugin)
        except Overrun:
            loaded.unloaded.append(UnloadedPlugin(name, f"loading it took longer than {_SECONDS:g} s"))
        except InvalidAnswer as error:
            loaded.unloaded.append(UnloadedPlugin(name, str(error)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            loaded.unloaded.append(UnloadedPlugin(name, faults.text(error)))
    return loaded


def _wanted(asked: tuple[str, ...]) -> dict[str, Callable[[], Any]]:
    """Returns functions that find the plugins to load, by the names of the plugins in reports."""
    offered = {each.name: each for each in sorted(entry_points(group=GROUP), key=lambda each: each.name)}
    off = {each[1:] for each in asked if each.startswith("-")}
    found: dict[str, Callable[[], Any]] = {
        name: each.load for name, each in offered.items() if name not in off and "*" not in off
    }
    for each in asked:
        if not each.startswith("-"):
            found[each] = _finder(each, offered)
    return found


def _finder(asked: str, offered: dict[str, EntryPoint]) -> Callable[[], Any]:
    if asked in offered:
        return offered[asked].load
    return lambda: _found(asked)


def _found(asked: str) -> Any:
    place, colon, attribute = asked.partition(":")
    if not colon:
        raise InvalidAnswer(f"no package offers it as an entry point of {GROUP}; say module:Class or file.py:Class")
    module = _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise InvalidAnswer(f"{place} has no {attribute}") from None


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise InvalidAnswer(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # So that classes of it can find their module, as dataclasses do.
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


def _made(find: Callable[[], Any]) -> Any:
    """A class is called without arguments; anything else is the plugin itself."""
    found = find()
    return found() if isinstance(found, type) else found
