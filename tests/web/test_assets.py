"""The files of the page: small, complete, and nothing from the network."""

import re

from dray.web.assets import ROOT, assets
from dray.web.views import VIEWS

SCRIPTS = {name: asset.body.decode() for name, asset in assets().items() if name.endswith((".js", ".mjs"))}


def test_the_page_has_less_than_250_kilobytes():
    assert sum(len(asset.body) for asset in assets().values()) < 250_000


def test_every_import_is_a_file_of_the_page():
    for name, text in SCRIPTS.items():
        for target in re.findall(r"""(?:from\s*|import\()["']([^"']+)["']""", text):
            assert ((ROOT / name).parent / target).resolve().is_file(), (name, target)


def test_every_export_is_imported_by_another_module():
    imported = {
        name.strip()
        for text in SCRIPTS.values()
        for names in re.findall(r"import \{([^}]*)\}", text)
        for name in names.split(",")
    }
    for name, text in SCRIPTS.items():
        if not name.startswith("vendor/"):
            exports = set(re.findall(r"^export (?:async )?(?:const|function|class) (\w+)", text, re.MULTILINE))
            # Modules of views are loaded when they are shown, and a test follows a stream by itself.
            assert exports - {"view", "follow"} <= imported, (name, exports - imported)


def test_nothing_is_loaded_from_the_network_and_no_markup_is_made_of_texts():
    for name, text in SCRIPTS.items():
        if not name.startswith("vendor/"):
            found = re.findall(r"https?://(?!www\.w3\.org)|innerHTML|outerHTML|dangerouslySetInnerHTML|\beval\b", text)
            assert not found, (name, found)


def test_modules_are_small():
    for name, text in SCRIPTS.items():
        assert name.startswith("vendor/") or len(text.splitlines()) <= 250, name


def test_every_view_has_both_sides():
    listed = re.findall(r'name: "(\w+)"', SCRIPTS["views.js"])
    assert sorted(listed) == sorted(view.name for view in VIEWS)
    for name in listed:
        assert f'export const view = {{ name: "{name}"' in SCRIPTS[f"views/{name}.js"]


def imports(name: str) -> set[str]:
    """The module and all that it imports before it runs."""
    found, todo = set(), [name]
    while todo:
        found.add(name := todo.pop())
        targets = re.findall(r"""from\s*["']([^"']+)["']""", SCRIPTS[name])
        todo += {((ROOT / name).parent / each).resolve().relative_to(ROOT).as_posix() for each in targets} - found
    return found


def test_the_document_asks_at_once_for_every_module_of_the_first_view() -> None:
    """Without that, a browser finds out file by file what to load, and a phone waits for each."""
    text = (ROOT / "index.html").read_text()
    listed = set(re.findall(r'rel="modulepreload" href="/ui/static/([^"]+)"', text))
    assert listed | {"main.js"} == imports("main.js") | imports("views/cluster.js")
