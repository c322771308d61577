"""kubectl as a program beside a server of the tests."""

import json
import os
import shutil
import subprocess

import pytest

KUBECTL = shutil.which("kubectl")
WITH_KUBECTL = pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on PATH")


class Kubectl:
    def __init__(self, server, home):
        self.server = server
        self.environment = {
            "HOME": str(home),
            "KUBECONFIG": str(home / "none"),
            "PATH": os.environ["PATH"],
        }

    def command(self, *arguments):
        return [KUBECTL, "--server", self.server.url, *arguments]

    def run(self, *arguments, text="", **environment):
        return subprocess.run(
            self.command(*arguments),
            input=text,
            capture_output=True,
            text=True,
            timeout=30,
            env={**self.environment, **environment},
            check=False,
        )

    def __call__(self, *arguments, text="", **environment):
        """What a command that must succeed prints."""
        done = self.run(*arguments, text=text, **environment)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done.stdout

    def json(self, *arguments):
        return json.loads(self(*arguments, "-o", "json"))
