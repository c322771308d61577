"""Our own OpenAPI turned against us: schemathesis makes requests from it, right and wrong, and none ends in a failure.

DRAY_FUZZ_EXAMPLES says how many an operation gets, DRAY_FUZZ_SEED from which chance they come.
"""

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.server.api import CLAIMS, PODS, claim, pod
from tests.server.process import listening

EXAMPLES = int(os.environ.get("DRAY_FUZZ_EXAMPLES", "1"))
SEED = os.environ.get("DRAY_FUZZ_SEED", "7")
# Where objects are, so that some requests meet one; anything else is soon a 404.
PLACES = {"namespace": ["default"], "name": ["thing", "default"]}
# A binding without a target is answered with 500, as Kubernetes does.
KNOWN = ("/api/v1/namespaces/{namespace}/pods/{name}/binding", "post")


def ask(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": "application/json"})) as answer:
        return json.load(answer)


def description(url):
    """All documents as one, with the parameters bound to what keeps the run going."""
    paths, schemas = {}, {}
    for place in ask(f"{url}/openapi/v3")["paths"]:
        document = ask(f"{url}/openapi/v3/{place}")
        paths |= document["paths"]
        schemas |= document["components"]["schemas"]
    del paths[KNOWN[0]][KNOWN[1]]
    # Objects before their collections: deleting a collection leaves nothing to ask for.
    ordered = {path: bound(paths[path]) for path in sorted(paths, key=lambda path: -path.count("/"))}
    return {**document, "paths": ordered, "components": {"schemas": schemas}}


def bound(item):
    # A watch goes on for as long as the client likes.
    for owner in (item, *(operation for operation in item.values() if isinstance(operation, dict))):
        owner["parameters"] = [each for each in owner.get("parameters", ()) if each["name"] != "watch"]
    for parameter in item["parameters"]:
        if parameter["in"] == "path":
            parameter["schema"]["enum"] = PLACES[parameter["name"]]
    return item


def test_no_request_made_from_the_description_fails(tmp_path):
    with listening() as server:
        ask(server.url + PODS, pod("thing"))
        ask(server.url + CLAIMS, claim("thing"))
        (tmp_path / "openapi.json").write_text(json.dumps(description(server.url)))
        command = [str(Path(sys.executable).with_name("schemathesis")), "run", "openapi.json", "--url", server.url]
        command += ["--checks", "not_a_server_error", "--phases", "fuzzing", "--max-examples", str(EXAMPLES)]
        command += ["--seed", SEED, "--suppress-health-check", "all", "--request-timeout", "20", "--warnings", "off"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
        made = re.search(r"(\d+) generated", done.stdout)
        assert made is not None
        assert int(made[1]) > 300
        assert ask(f"{server.url}/version")["major"] == "1"
