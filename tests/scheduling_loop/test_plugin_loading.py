"""Plugins are found by module, by file and as entry points; what cannot be loaded is left out with a reason."""

import sys

import pytest

from dray.scheduling.core.guarded_plugin import NO_WATCHDOG
from dray.scheduling_loop.plugin_loading import GROUP, load
from dray.scheduling_loop.plugin_watchdog import PluginWatchdog

MODULE = """
from dray.scheduling.plugin import Plugin
class Good(Plugin): pass
class Other(Plugin): name = "Another"
class NodeAffinity(Plugin): pass
class Heavy(Plugin): weight = 10**9
class NoNumber(Plugin): weight = True
class Nameless(Plugin): name = "\\n"
class Vague(Plugin): depends_on = "the node"
class Needy(Plugin):
    def __init__(self, address): pass
class Raising(Plugin):
    def __init__(self): raise SystemExit(1)
class Stranger: pass
instance = Good()
"""


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A package with modules good and bad, which offers two plugins."""
    (tmp_path / "shop.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    (tmp_path / "typo.py").write_text("class\n")
    info = tmp_path / "shop-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\ngood = shop:Good\nlost = shop:Lost\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("shop", "broken", "typo"):
        sys.modules.pop(name, None)


def loaded(*asked):
    found = load(asked, NO_WATCHDOG)
    return [each.name for each in found.plugins], {each.name: each.why for each in found.unloaded}


def test_entry_points_are_used_unless_they_are_switched_off(packages):
    names, unloaded = loaded()
    assert names == ["Good"]
    assert list(unloaded) == ["lost"]
    assert "Lost" in unloaded["lost"]
    assert loaded("-lost") == (["Good"], {})
    assert loaded("-*") == ([], {})
    assert loaded("-*", "good") == (["Good"], {})


def test_modules_files_and_instances(packages):
    assert loaded("-*", "shop:Other", "shop:instance") == (["Another", "Good"], {})
    assert loaded("-*", f"{packages}/shop.py:Other") == (["Another"], {})


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("broken:Good", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("typo:Good", "SyntaxError: invalid syntax"),
        ("nowhere:Good", "No module named 'nowhere'"),
        ("nowhere.py:Good", "there is no file nowhere.py"),
        ("shop:Missing", "shop has no Missing"),
        ("unknown", "no package offers it as an entry point of dray.scheduler_plugins"),
        ("shop:Needy", "TypeError"),
        ("shop:Raising", "SystemExit: 1"),
        ("shop:Stranger", "not a dray.scheduling.plugin.Plugin"),
        ("shop:NodeAffinity", "there is another plugin of the name NodeAffinity"),
        ("shop:Heavy", "its weight must be an int from 0 to 100, not 1000000000"),
        ("shop:NoNumber", "its weight must be an int from 0 to 100, not True"),
        ("shop:Nameless", "its name must have 1 to 63 printable characters"),
        ("shop:Vague", "its depends_on must be of dray.scheduling.plugin.Depends, not 'the node'"),
    ],
)
def test_one_that_cannot_be_used_is_left_out_with_a_reason(packages, asked, why):
    names, unloaded = loaded("-*", asked, "shop:Good")
    assert names == ["Good"]
    assert why in unloaded[asked]


def test_the_same_twice_is_there_once(packages):
    names, unloaded = loaded("-*", "shop:Good", "shop:instance")
    assert names == ["Good"]
    assert "there is another plugin of the name Good" in unloaded["shop:instance"]


def test_one_that_hangs_while_it_is_loaded_is_left_out(packages, monkeypatch):
    monkeypatch.setattr("dray.scheduling_loop.plugin_loading._SECONDS", 0.2)
    (packages / "endless.py").write_text("while True: pass\n")
    watchdog = PluginWatchdog()
    found = load(["-*", "endless:Good", "shop:Good"], watchdog)
    watchdog.close()
    assert [each.name for each in found.plugins] == ["Good"]
    assert [each.why for each in found.unloaded] == ["loading it took longer than 0.2 s"]
