"""The chapter "Writing a driver" is carried out: its files are written, its commands run, and what they print compared.

A block of Python names its file in a comment, and replaces what was there. A block of the console has commands, and the
line that must be in what the last of them prints.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

CHAPTER = Path(__file__).parents[2] / "docs/writing-a-driver.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks():
    return BLOCK.findall(CHAPTER.read_text())


def test_the_chapter_leads_to_a_driver_that_passes_its_tests(tmp_path):
    runs = 0
    for language, content in blocks():
        if language == "python":
            name = content.partition("\n")[0].removeprefix("# ")
            (tmp_path / name).write_text(content)
        elif language == "console" and content.startswith("$ pytest"):
            expected = content.splitlines()[-1]
            assert expected in run(tmp_path)
            runs += 1
    assert runs == 2


def run(directory):
    # Without the plugins of others that happen to be installed here, which take longer to load than the tests to run.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "dray.testing.fixtures"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    # What the chapter replaces must not be taken from what was compiled a moment before.
    shutil.rmtree(directory / "__pycache__", ignore_errors=True)
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_fault_that_the_chapter_names_exists():
    from dray.testing.kubelet import faults
    from dray.testing.kubelet.driver_process import DriverProcess
    from dray.testing.kubelet.threaded import ThreadedKubelet

    text = CHAPTER.read_text()
    for name in (
        "deadline",
        "lost_answer",
        "answer_for_another_claim",
        "skipped_claim",
        "unreachable",
        "dying",
        "during",
    ):
        assert f"{name}(" in text
        assert callable(getattr(faults, name))
    for owner, pattern in ((ThreadedKubelet, r"kubelet\.(\w+)"), (DriverProcess, r"process\.(\w+)")):
        for name in set(re.findall(pattern, text)) - {"restart"}:
            assert hasattr(owner, name) or name in ("double", "faults"), name
