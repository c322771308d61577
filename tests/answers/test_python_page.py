"""docs/python.md: the code of the page runs, and prints what the page says."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/python.md"
_BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    """The pieces of code in their order, each with what it prints."""
    found: list[tuple[str, str]] = []
    for language, text in _BLOCK.findall(PAGE.read_text()):
        if language == "python":
            found.append((text, ""))
        else:
            found[-1] = (found[-1][0], text)
    return found


def test_the_code_of_the_page_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code, shown in blocks():
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(PAGE), "exec"), names)
        assert printed.getvalue().strip() == shown.strip()
    assert "explanation" in names


def test_importing_dray_imports_nothing_else() -> None:
    code = "import sys, dray; print([name for name in sys.modules if name.startswith('dray.') or name == 'msgspec'])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
