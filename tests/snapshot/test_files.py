"""Files of snapshots: what was written is read again, and whatever else is in a file is refused in one line."""

import gzip
import json

import pytest

from dray.snapshot import files
from dray.snapshot.files import Header, ListedKind, Refusal, Snapshot, SnapshotError, read, write

PODS = ListedKind("", "v1", "pods", "Pod", True, objects=2, resource_version="7")
HIDDEN = ListedKind("", "v1", "nodes", "Node", False, refusal=Refusal(403, "Forbidden", "no"))


def snapshot():
    pods = [{"metadata": {"name": name, "namespace": "d"}, "spec": {}} for name in ("a", "b")]
    return Snapshot(Header(taken_at=5.0, namespace="d", kinds=(PODS, HIDDEN)), {("v1", "Pod"): pods})


@pytest.fixture
def file(tmp_path):
    write(snapshot(), tmp_path / "s")
    return tmp_path / "s"


def lines(file):
    return gzip.decompress(file.read_bytes()).splitlines()


def refused(file, data):
    file.write_bytes(data)
    with pytest.raises(SnapshotError) as raised:
        read(file)
    told = str(raised.value)
    assert told.startswith(f"{file}: ")
    assert "\n" not in told
    return told.removeprefix(f"{file}: ")


def test_what_was_written_is_read_again(file):
    found = read(file)
    assert found.header == snapshot().header
    stored = found.objects["v1", "Pod"]
    assert [each.key for each in stored] == [("d", "a"), ("d", "b")]
    assert [json.loads(each.json) for each in stored] == snapshot().objects["v1", "Pod"]
    assert [path.name for path in file.parent.iterdir()] == ["s"]


def test_a_file_cut_short_anywhere_is_refused(file):
    data = file.read_bytes()
    for length in range(1, len(data) - 1, 7):
        refused(file, data[:length])
    assert refused(file, gzip.compress(b"\n".join(lines_of(data)[:2]))) == "cut short: 1 of 2 objects of kind Pod"


def lines_of(data):
    return gzip.decompress(data).splitlines()


def test_damage_is_refused(file):
    data = file.read_bytes()
    for place in range(10, len(data), 11):
        file.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        with pytest.raises(SnapshotError):
            read(file)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "line 2 is damaged"),
        (b"[]", "line 2 is damaged"),
        (b"\xff\xfe", "line 2 is damaged"),
        (b"[" * 100_000, "line 2 is damaged"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "line 2 is damaged"),
        (b'{"apiVersion":"v1","kind":"Pod"}', "missing required field `object`"),
        (b'{"apiVersion":"v1","kind":"Pod","object":7}', "Expected `object`"),
        (b'{"apiVersion":"v1","kind":"Pod","object":{"metadata":{"name":1}}}', "Expected `str`"),
        (b'{"apiVersion":"v1","kind":"Pod","object":{"metadata":{"name":"a"},"spec":' + b"[" * 100_000, "is damaged"),
        (b'{"apiVersion":"v1","kind":"Pod","object":{"metadata":{"name":"a"},"spec":7}}', "spec is not a mapping"),
        (b'{"apiVersion":"v1","kind":"Secret","object":{"metadata":{"name":"a"}}}', "'Secret' is not in the header"),
        (b'{"apiVersion":"v1","kind":"Node","object":{"metadata":{"name":"a"}}}', "'Node' is not in the header"),
    ],
)
def test_hostile_lines_are_refused(file, line, told):
    header = lines(file)[0]
    assert told in refused(file, gzip.compress(header + b"\n" + line + b"\n"))


def test_other_formats_and_versions_are_named(file):
    header = json.loads(lines(file)[0])
    assert "not a snapshot" in refused(file, gzip.compress(b"hello"))
    assert "not a snapshot" in refused(file, gzip.compress(b"{}"))
    assert "not a snapshot" in refused(file, b"PK\x03\x04")
    assert "not a snapshot" in refused(file, b"")
    newer = json.dumps({**header, "version": 2}).encode()
    assert refused(file, gzip.compress(newer)) == "version 2 of the format; this dray reads version 1"
    assert "damaged header" in refused(file, gzip.compress(json.dumps({**header, "kinds": 3}).encode()))


def test_a_file_that_grows_without_end_is_refused_early(file, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 1024**2)
    monkeypatch.setattr(files, "_LONGEST_LINE", 64 * 1024)
    assert "larger than a snapshot can be" in refused(file, gzip.compress(b" " * 8 * 1024**2))
    header = lines(file)[0] + b"\n"
    assert "larger than a snapshot can be" in refused(
        file, gzip.compress(header + (b"{}" + b" " * 60_000 + b"\n") * 40)
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"takenAt": -1e18}, "damaged header: takenAt is -1e+18"),
        ({"takenAt": 1e300}, "damaged header: takenAt is 1e+300"),
        ({"kinds": []}, "damaged header: it has no nodes"),
    ],
)
def test_headers_that_no_server_would_give_are_refused(file, change, told):
    header, *objects = lines(file)
    data = b"\n".join([json.dumps({**json.loads(header), **change}).encode(), *objects])
    assert refused(file, gzip.compress(data)) == told
