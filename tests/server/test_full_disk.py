"""A disk without room: clients are told, deletions go on, nothing acknowledged is lost, and it ends by itself."""

import json
import subprocess
import time

import pytest

from dray.store.interface import StoreError
from dray.store.retention import Retention
from tests.server.process import listening
from tests.server.test_running import fetch

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def disk(tmp_path):
    """A file system of 6 MB, and how it gets larger."""
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", tmp_path], capture_output=True)
    if mount.returncode:
        pytest.skip("mounting takes rights that are missing here")
    yield tmp_path, lambda: subprocess.run(["mount", "-o", "remount,size=60m", tmp_path], check=True)
    subprocess.run(["umount", "-l", tmp_path], check=True)


def create(server, name, size=200_000, **metadata):
    body = json.dumps({"metadata": {"name": name, **metadata}, "data": {"a": "x" * size}}).encode()
    return fetch(f"{server.url}{MAPS}", method="POST", body=body, **{"Content-Type": "application/json"})


def names(server):
    found = {each["metadata"]["name"] for each in json.loads(fetch(f"{server.url}{MAPS}")[1])["items"]}
    return found - {"kube-root-ca.crt"}


def become_ready(server):
    end = time.monotonic() + 20
    while fetch(f"{server.url}/readyz")[0] != 200:
        assert time.monotonic() < end, fetch(f"{server.url}/readyz")
        time.sleep(0.1)


def test_a_full_disk(disk, caplog):
    directory, enlarge = disk
    with listening(data=directory / "data") as server:
        assert create(server, "held", 1000, finalizers=["example.com/hold"])[0] == 201
        answers = {f"m{number}": create(server, f"m{number}") for number in range(40)}
        kept = {name for name, (code, _) in answers.items() if code == 201} | {"held"}
        refusals = [json.loads(body) for code, body in answers.values() if code == 507]
        assert len(kept) > 5
        assert len(kept) + len(refusals) == 41
        assert refusals[0]["message"].startswith("no space left on device: cannot write to ")
        assert names(server) == kept
        code, body = fetch(f"{server.url}/readyz")
        assert code == 500
        assert b"[-]etcd failed: no space left on device" in body
        assert fetch(f"{server.url}/livez")[0] == 200
        # What is held by a finalizer is deleted in steps.
        assert fetch(f"{server.url}{MAPS}/held", method="DELETE")[0] == 200
        patch = {"Content-Type": "application/merge-patch+json"}
        body = b'{"metadata":{"finalizers":null}}'
        assert fetch(f"{server.url}{MAPS}/held", method="PATCH", body=body, **patch)[0] == 200
        gone = sorted(kept - {"held"})[:3]
        for name in gone:
            assert fetch(f"{server.url}{MAPS}/{name}", method="DELETE")[0] == 200
        kept -= {"held", *gone}
        assert names(server) == kept
    with listening(data=directory / "data") as server:
        assert names(server) == kept
        enlarge()
        become_ready(server)
        assert create(server, "more")[0] == 201
        assert names(server) == {*kept, "more"}
    assert "Traceback" not in caplog.text
    assert caplog.text.count("no space left on device") <= 2


def test_a_disk_that_was_full_is_ready_again_when_objects_are_deleted(disk, caplog):
    directory, _ = disk
    with listening(data=directory / "data", retention=Retention(interval=0.2)) as server:
        made = [f"m{number}" for number in range(40) if create(server, f"m{number}")[0] == 201]
        assert fetch(f"{server.url}/readyz")[0] == 500
        for name in made:
            assert fetch(f"{server.url}{MAPS}/{name}", method="DELETE")[0] == 200
        become_ready(server)
        assert create(server, "more")[0] == 201
        assert names(server) == {"more"}
    assert "Traceback" not in caplog.text


def test_a_file_system_that_is_read_only_is_not_called_full(disk, caplog):
    directory, _ = disk
    with listening(data=directory / "data"):
        pass
    subprocess.run(["mount", "-o", "remount,ro", directory], check=True)
    with pytest.raises(StoreError) as refused, listening(data=directory / "data"):
        pass
    assert "no space left" not in str(refused.value) + caplog.text
