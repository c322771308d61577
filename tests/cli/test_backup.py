"""`dray backup` and `dray restore`: a copy of a cluster that is written to, and a cluster started from the copy."""

from __future__ import annotations

import io
import json
import ssl
import stat
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from click.testing import Result

from tests.cli.running import running
from tests.cli.test_up import wait

Dray = Callable[..., Result]
UP = ("up", "--port", "0", "--plain", "--data", "data")


class Writer:
    """Creates ConfigMaps one after the other, and knows which were acknowledged."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/api/v1/namespaces/default/configmaps"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.acknowledged: list[str] = []
        self.enough = threading.Event()

    def _write(self) -> None:
        while not self._ended.is_set():
            name = f"made-{len(self.acknowledged)}"
            body = json.dumps({"metadata": {"name": name}, "data": {"filler": "x" * 2000}}).encode()
            request = Request(self._url, body, {"Content-Type": "application/json"})
            with urlopen(request, timeout=30):
                self.acknowledged.append(name)
            if len(self.acknowledged) >= 100:
                self.enough.set()

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._ended.set()
        self._thread.join(60)


def url_of(lines: list[str]) -> str:
    return next(word for word in " ".join(lines).split() if word.startswith("http://"))


def names(url: str) -> set[str]:
    with urlopen(f"{url}/api/v1/namespaces/default/configmaps", timeout=30) as answer:
        return {each["metadata"]["name"] for each in json.load(answer)["items"]}


def test_a_backup_made_under_load_has_all_that_was_acknowledged(run: Dray, tmp_path: Path) -> None:
    file = tmp_path / "copy.tar.gz"
    with running(*UP, cwd=tmp_path) as up:
        with Writer(url_of(wait(up))) as writer:
            assert writer.enough.wait(60)
            before = list(writer.acknowledged)
            made = run("backup", str(file), "--data", str(tmp_path / "data"))
            assert made.exit_code == 0, made.output
            after = len(writer.acknowledged)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        # Neither a cluster that runs nor a file that is there is overwritten.
        assert "runs a cluster with" in run("restore", str(file), "--data", str(tmp_path / "data")).stderr
        assert "exists" in run("backup", str(file), "--data", str(tmp_path / "data")).stderr
        up.stop()
    refused = run("restore", str(file), "--data", str(tmp_path / "data"))
    assert (refused.exit_code, "is not empty" in refused.stderr) == (2, True)
    restored = run("restore", str(file), "--data", str(tmp_path / "again"))
    assert restored.exit_code == 0, restored.output
    for path in ("kubeconfig", "pki/service-account.key"):
        assert (tmp_path / "again" / path).read_bytes() == (tmp_path / "data" / path).read_bytes()
    private = [path for path in (tmp_path / "again").rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
    with running("up", "--plain", "--port", "0", "--data", "again", cwd=tmp_path) as up:
        found = names(url_of(wait(up)))
        assert set(before) <= found
        assert len(found & set(writer.acknowledged)) <= after + 1
        up.stop()


def test_a_cluster_that_is_stopped_is_backed_up_too(run: Dray, tmp_path: Path) -> None:
    with running(*UP, cwd=tmp_path) as up:
        url = url_of(wait(up))
        body = json.dumps({"metadata": {"name": "kept"}}).encode()
        with urlopen(
            Request(f"{url}/api/v1/namespaces/default/configmaps", body, {"Content-Type": "application/json"})
        ):
            pass
        up.process.kill()
        up.process.wait(30)
    assert run("backup", str(tmp_path / "b.tgz"), "--data", str(tmp_path / "data")).exit_code == 0
    assert run("restore", str(tmp_path / "b.tgz"), "--data", str(tmp_path / "new/place")).exit_code == 0
    with running("up", "--plain", "--port", "0", "--data", "new/place", cwd=tmp_path) as up:
        assert "kept" in names(url_of(wait(up)))
        up.stop()


def test_only_administrators_read_the_store(run: Dray, tmp_path: Path) -> None:
    """The server refuses a request without a token."""
    with running("up", "--port", "0", "--data", "data", cwd=tmp_path) as up:
        url = next(word for word in " ".join(wait(up)).split() if word.startswith("https://"))
        context = ssl.create_default_context(cafile=str(tmp_path / "data/pki/ca.crt"))
        with pytest.raises(HTTPError) as refused:
            urlopen(f"{url}/dray/backup", context=context, timeout=30)
        assert refused.value.code in (401, 403)
        refused.value.close()
        assert run("backup", str(tmp_path / "b.tgz"), "--data", str(tmp_path / "data")).exit_code == 0
        with tarfile.open(tmp_path / "b.tgz") as archive:
            assert {"pki/ca.key", "pki/admin.token", "store/store.db", "address.json"} <= set(archive.getnames())
        up.stop()


def test_a_backup_that_cannot_be_written_leaves_nothing(run: Dray, tmp_path: Path) -> None:
    (tmp_path / "data/store").mkdir(parents=True, mode=0o700)
    result = run("backup", str(tmp_path / "none/b.tgz"), "--data", str(tmp_path / "data"))
    assert (result.exit_code, result.stderr) == (2, f"error: {tmp_path}/none/b.tgz: No such file or directory\n")
    assert "has no store" in run("backup", str(tmp_path / "b.tgz"), "--data", str(tmp_path / "none")).stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({}, "is not a backup of dray"),
        ({"backup.json": b'{"format": 9, "dray": "9.1", "created": ""}'}, "use dray 9.1"),
        ({"backup.json": b'{"format": 1, "dray": "1", "created": ""}'}, "has no store"),
        ({"backup.json": b'{"format": 1, "dray": "1", "created": ""}', "store/store.db": b"x" * 5000}, "damaged"),
    ],
)
def test_what_is_no_good_backup_leaves_no_directory(
    run: Dray, tmp_path: Path, names: dict[str, bytes], said: str
) -> None:
    with tarfile.open(tmp_path / "b.tgz", "w:gz") as archive:
        for name, content in names.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    result = run("restore", str(tmp_path / "b.tgz"), "--data", str(tmp_path / "data"))
    assert (result.exit_code, said in result.stderr) == (2, True), result.output
    assert [path.name for path in tmp_path.iterdir()] == ["b.tgz"]


def test_names_in_a_backup_do_not_lead_out_of_the_directory(run: Dray, tmp_path: Path) -> None:
    good = {"backup.json": b'{"format": 1, "dray": "1", "created": ""}', "pki/../../out": b"x", "/tmp/dray-out": b"x"}
    with tarfile.open(tmp_path / "b.tgz", "w:gz") as archive:
        for name, content in good.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    run("restore", str(tmp_path / "b.tgz"), "--data", str(tmp_path / "deep/data"))
    assert not any(path.name in ("out", "dray-out") for path in (*tmp_path.rglob("*"), *Path("/tmp").glob("dray-out")))
