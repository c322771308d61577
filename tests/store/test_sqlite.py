import asyncio
import errno
import os
import sqlite3
import stat
import subprocess
import sys

import pytest

from dray.store.directory import InUse
from dray.store.interface import Compacted, EventType, NoSpace, NotDurable, StoreError
from dray.store.sqlite import SqliteStore

from .stores import crash, drain, take, text


def contents(store):
    return {record.key: record.value for record in store.list("/").records}


def fill_up(store, *, spare):
    """Leaves room for so many more pages: a real SQLITE_FULL after that."""
    connection = store._journal._connection
    connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0] + spare}")


def make_room(store):
    store._journal._connection.execute("PRAGMA max_page_count = 1000000")


async def test_a_restart_changes_nothing(tmp_path):
    store = SqliteStore(tmp_path)
    await store.create("/a", text("one"))
    await store.create("/b", text("two"))
    await store.update("/a", text("three"))
    await store.delete("/b")
    before = [await take(store.watch("/", after=after), 4 - after) for after in range(4)]
    await store.close()
    again = SqliteStore(tmp_path)
    assert (again.revision, contents(again)) == (4, {"/a": b"three@3"})
    assert [await take(again.watch("/", after=after), 4 - after) for after in range(4)] == before
    assert [record.value for record in again.list("/", revision=2).records] == [b"one@1", b"two@2"]
    assert (await again.create("/c", text("four"))).revision == 5
    await again.close()


async def test_writes_of_one_turn_are_one_transaction(tmp_path):
    store = SqliteStore(tmp_path)
    commits = []
    store._journal._connection.set_trace_callback(lambda statement: commits.append(statement == "COMMIT"))
    await asyncio.gather(*(store.create(f"/{number}", text("x")) for number in range(50)))
    assert sum(commits) == 1
    await store.close()


async def test_watchers_see_only_what_is_durable(tmp_path):
    store = SqliteStore(tmp_path)
    watch = store.watch("/", after=0)
    writer = asyncio.ensure_future(store.create("/a", text("one")))
    await asyncio.sleep(0)
    assert store.get("/a") is not None
    assert (watch.revision, store._watches._all()[0]._buffer) == (0, type(watch._buffer)())
    await writer
    assert watch.revision == 0
    assert len(await drain(watch)) == 1
    assert watch.revision == 1
    await store.close()


async def test_a_watch_from_a_list_does_not_repeat_what_was_pending(tmp_path):
    store = SqliteStore(tmp_path)
    writer = asyncio.ensure_future(store.create("/a", text("one")))
    await asyncio.sleep(0)
    page = store.list("/")
    assert [record.key for record in page.records] == ["/a"]
    watch = store.watch("/", after=page.revision)
    await writer
    await store.update("/a", text("two"))
    assert [event.record.revision for event in await drain(watch)] == [2]
    await store.close()


async def test_after_a_crash_no_revision_is_used_again(tmp_path):
    store = SqliteStore(tmp_path)
    await store.create("/a", text("one"))
    lost = asyncio.ensure_future(store.create("/b", text("two")))
    await asyncio.sleep(0)
    promised = store.list("/").revision
    crash(store)
    lost.cancel()
    again = SqliteStore(tmp_path)
    assert contents(again) == {"/a": b"one@1"}
    assert again.revision > promised
    with pytest.raises(Compacted):
        again.watch("/", after=promised)
    with pytest.raises(Compacted):
        again.list("/", revision=promised)
    resumed, fresh = again.watch("/", after=1), again.watch("/", after=again.list("/").revision)
    record = await again.create("/b", text("three"))
    assert [event.record for event in await drain(resumed)] == [record]
    assert [event.record for event in await drain(fresh)] == [record]
    await again.close()
    last = SqliteStore(tmp_path)
    with pytest.raises(Compacted):
        last.watch("/", after=promised)
    await last.close()


async def test_a_bookmark_read_between_two_crashes_stays_good(tmp_path):
    store = SqliteStore(tmp_path)
    await store.create("/a", text("one"))
    crash(store)
    between = SqliteStore(tmp_path)
    bookmark = between.watch("/", after=1).revision
    crash(between)
    last = SqliteStore(tmp_path)
    assert await drain(last.watch("/", after=bookmark)) == []
    await last.close()


async def test_a_full_disk_undoes_the_writes_of_the_turn(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.store.sqlite._PAUSE", 0)
    store = SqliteStore(tmp_path)
    await store.create("/kept", text("kept"))
    await store.create("/gone", text("gone"))
    await store.delete("/gone")
    fill_up(store, spare=4)
    watch = store.watch("/", after=3)
    big = "x" * 50_000
    writes = [store.create("/small", text("s")), store.update("/kept", text(big)), store.create("/big", text(big))]
    pending = asyncio.gather(*writes, return_exceptions=True)
    await asyncio.sleep(0)
    phantom = store.revision
    early = store.watch("/", after=phantom)
    results = await pending
    assert [type(each) for each in results] == [NoSpace] * 3
    assert "no space left on device" in str(results[0])
    assert contents(store) == {"/kept": b"kept@1"}
    assert await drain(watch) == []
    assert watch.revision == store.revision > phantom
    with pytest.raises(Compacted):
        await anext(early)
    with pytest.raises(Compacted):
        store.watch("/", after=phantom)

    make_room(store)
    record = await store.create("/big", text(big))
    assert record.revision > phantom + 1
    assert [event.record for event in await take(watch, 1)] == [record]
    await store.close()
    again = SqliteStore(tmp_path)
    assert set(contents(again)) == {"/kept", "/big"}
    with pytest.raises(Compacted):
        again.watch("/", after=phantom)
    assert len(await drain(again.watch("/", after=3))) == 1
    await again.close()


async def test_small_writes_go_on_where_large_ones_do_not_fit(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.store.sqlite._PAUSE", 0)
    store = SqliteStore(tmp_path)
    await store.create("/a", text("a"))
    fill_up(store, spare=2)
    with pytest.raises(NotDurable):
        await store.create("/big", text("x" * 50_000))
    await store.update("/a", text("b"))
    crash(store)
    again = SqliteStore(tmp_path)
    assert list(contents(again)) == ["/a"]
    assert again.get("/a").value.startswith(b"b@")
    await again.close()


async def test_revisions_run_out_before_one_is_used_twice(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.store.journal._BLOCK", 8)
    store = SqliteStore(tmp_path)
    # More writes in a turn than are reserved.
    await asyncio.gather(*(store.create(f"/{number}", text("x")) for number in range(30)))
    assert sorted(record.revision for record in store.list("/").records) == list(range(1, 31))

    def fail(*arguments, **options):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(store._journal, "append", fail)
    for number in range(30):
        with pytest.raises(NotDurable, match="disk I/O error"):
            await store.create(f"/more/{number}", text("x"))
    highest = store.revision
    assert highest <= store._journal.reserved
    crash(store)
    again = SqliteStore(tmp_path)
    assert again.revision > highest
    await again.close()


async def test_compaction_shrinks_the_file_contents(tmp_path):
    store = SqliteStore(tmp_path)
    for number in range(500):
        await (store.update if number > 9 else store.create)(f"/{number % 10}", text(number))
    await store.delete("/0")
    await store.compact(store.revision)
    assert store._journal._connection.execute("SELECT count(*) FROM log").fetchone() == (9,)
    await store.close()
    again = SqliteStore(tmp_path)
    assert again.revision == 501
    assert sorted(contents(again)) == [f"/{number}" for number in range(1, 10)]
    with pytest.raises(Compacted):
        again.watch("/", after=500)
    again.watch("/", after=501)
    await again.close()


@pytest.mark.parametrize("strides", range(4))
def test_a_compaction_cut_short_brings_nothing_back(tmp_path, monkeypatch, strides):
    monkeypatch.setattr("dray.store.sqlite._STRIDE", 2)

    async def first():
        store = SqliteStore(tmp_path)
        for name in "abc":
            await store.create(f"/{name}", text("one"))
            await store.update(f"/{name}", text("two"))
            await store.delete(f"/{name}")
        await store.create("/a", text("three"))
        task = asyncio.ensure_future(store.compact(9))
        for _ in range(strides):
            await asyncio.sleep(0)
        crash(store)
        task.cancel()

    async def second():
        store = SqliteStore(tmp_path)
        assert contents(store) == {"/a": b"three@10"}
        if strides:
            assert store._journal._connection.execute("SELECT count(*) FROM log").fetchone() == (1,)
        await store.close()

    asyncio.run(first())
    asyncio.run(second())


async def test_a_compaction_that_fails_can_be_repeated(tmp_path, monkeypatch):
    store = SqliteStore(tmp_path)
    await store.create("/a", text("one"))
    await store.delete("/a")
    forget = store._journal.forget

    def fail(*arguments):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(store._journal, "forget", fail)
    with pytest.raises(StoreError, match="disk I/O error"):
        await store.compact(2)
    monkeypatch.setattr(store._journal, "forget", forget)
    await store.compact(2)
    assert store._journal._connection.execute("SELECT count(*) FROM log").fetchone() == (0,)
    await store.close()


async def test_a_directory_belongs_to_one_process(tmp_path):
    store = SqliteStore(tmp_path)
    with pytest.raises(InUse, match=str(os.getpid())):
        SqliteStore(tmp_path)
    program = (
        f"from pathlib import Path; from dray.store.sqlite import SqliteStore; SqliteStore(Path({str(tmp_path)!r}))"
    )
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert other.returncode == 1
    assert f"is in use by process {os.getpid()}" in other.stderr
    await store.close()
    await SqliteStore(tmp_path).close()


async def test_only_the_owner_may_read(tmp_path):
    store = SqliteStore(tmp_path / "data")
    await store.create("/secret", text("secret"))
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").iterdir()} == {0o600}
    await store.close()


async def test_files_that_are_not_ours(tmp_path):
    (tmp_path / "store.db").write_bytes(b"not a database, but long enough to be taken for one" * 100)
    with pytest.raises(StoreError, match="file is not a database"):
        SqliteStore(tmp_path)
    (tmp_path / "store.db").unlink()
    await SqliteStore(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "store.db")
    connection.execute("UPDATE meta SET value = 99 WHERE name = 'schema'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="schema version 99"):
        SqliteStore(tmp_path)
    blocked = tmp_path / "store.db" / "below"
    with pytest.raises(StoreError, match="cannot use"):
        SqliteStore(blocked)


async def test_an_unwritable_key_fails_its_turn_only(tmp_path):
    store = SqliteStore(tmp_path)
    with pytest.raises(NotDurable):
        await store.create("/\ud800", text("x"))
    await store.create("/a", text("x"))
    assert list(contents(store)) == ["/a"]
    await store.close()


async def test_fsync_is_asked_for(tmp_path):
    store = SqliteStore(tmp_path, fsync=True)
    assert store._journal._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    await store.create("/a", text("x"))
    await store.close()


def store_with(directory, number, size=10):
    """A store that was killed after so many writes."""

    async def write():
        store = SqliteStore(directory)
        for each in range(number):
            await store.create(f"/a/{each:04}", lambda revision: b"x" * size)
        os._exit(9)

    child = os.fork()
    if not child:
        asyncio.run(write())
    assert os.waitpid(child, 0)[1] == 9 << 8


def count(directory):
    async def read():
        store = SqliteStore(directory)
        number = len(store.list("/").records)
        await store.close()
        return number

    return asyncio.run(read())


def without(path):
    path.unlink()


def with_garbage(path):
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"garbage!" * 100)


def with_garbage_at_its_beginning(path):
    with path.open("r+b") as file:
        file.write(b"garbage!" * 4)


def cut_short(path):
    os.truncate(path, path.stat().st_size * 3 // 4)


def emptied(path):
    os.truncate(path, 0)


@pytest.mark.parametrize("damage", [without, with_garbage, with_garbage_at_its_beginning, cut_short, emptied])
def test_a_damaged_log_is_not_an_empty_cluster(tmp_path, damage):
    store_with(tmp_path, 60)
    damage(tmp_path / "store.db-wal")
    for _ in range(2):
        with pytest.raises(StoreError, match=r"missing or damaged; restore it, or remove .*store\.mark"):
            SqliteStore(tmp_path)
    assert (damage is without) or (tmp_path / "store.db-wal.damaged").exists()
    (tmp_path / "store.mark").unlink()
    assert count(tmp_path) < 60


@pytest.mark.parametrize("damage", [without, with_garbage_at_its_beginning, emptied])
def test_also_after_a_part_of_it_was_moved_into_the_database(tmp_path, damage):
    store_with(tmp_path, 2000, 3000)
    damage(tmp_path / "store.db-wal")
    with pytest.raises(StoreError, match="missing or damaged"):
        SqliteStore(tmp_path)
    (tmp_path / "store.mark").unlink()
    assert 0 < count(tmp_path) < 2000


def test_no_alarm_after_a_crash_a_restart_and_an_end(tmp_path):
    for number in range(1, 4):
        store_with(tmp_path / "crashes", 0)
        store_with(tmp_path / "crashes", 0)
        store_with(tmp_path / str(number), 100 * number, 2000)
        assert count(tmp_path / str(number)) == 100 * number
        assert not (tmp_path / str(number) / "store.mark").exists()
        assert count(tmp_path / str(number)) == 100 * number


def test_after_a_loss_of_power_what_is_left_is_enough_unless_every_commit_waited(tmp_path, caplog):
    store_with(tmp_path, 60)
    mark = tmp_path / "store.mark"
    revision, reserved, _ = mark.read_text().split()
    mark.write_text(f"{int(revision) + 7} {reserved} of-another-time\n")
    with pytest.raises(StoreError, match="67 was acknowledged"):
        SqliteStore(tmp_path, fsync=True)
    assert count(tmp_path) == 60
    assert "the machine went down" in caplog.text
    store_with(tmp_path, 0)
    mark.write_text(f"{revision} {int(reserved) + 100_000} of-another-time\n")
    with pytest.raises(StoreError, match="missing or damaged"):
        SqliteStore(tmp_path)


def test_what_others_may_read_is_closed(tmp_path, caplog):
    store_with(tmp_path / "store", 3)
    (tmp_path / "store").chmod(0o777)
    for name in ("store.db", "store.db-wal"):
        (tmp_path / "store" / name).chmod(0o644)
    assert count(tmp_path / "store") == 3
    assert [oct(path.stat().st_mode & 0o777) for path in (tmp_path / "store", tmp_path / "store/store.db")] == [
        "0o700",
        "0o600",
    ]
    assert "store.db was open to others (mode 0644), who may have read the secrets in it" in caplog.text
    caplog.clear()
    assert count(tmp_path / "store") == 3
    assert not caplog.text


async def test_deletions_go_on_where_nothing_else_fits(tmp_path, caplog):
    store = SqliteStore(tmp_path)
    for number in range(5):
        await store.create(f"/big/{number}", lambda revision: b"x" * 500_000)
    await store.create("/held", text("x" * 1000))
    fill_up(store, spare=4)
    watch = store.watch("/", after=store.revision)
    refused = await asyncio.gather(
        *(store.create(f"/{number}", text("x" * 100_000)) for number in range(10)), return_exceptions=True
    )
    assert {type(each) for each in refused} == {NoSpace}
    assert store.trouble.startswith("no space left on device: cannot write to ")
    with pytest.raises(NoSpace):
        await store.update("/held", text("y" * 1000))
    await store.update("/held", text("ending"), frees=True)
    # Also where one comes in the same turn as a write that does not fit.
    store._next_try = 0.0
    first, *_ = await asyncio.gather(
        store.create("/more", text("x" * 100_000)), store.delete("/held"), return_exceptions=True
    )
    assert isinstance(first, NoSpace)
    for number in range(5):
        await store.delete(f"/big/{number}")
    assert len(await drain(watch)) == 7
    assert not store.list("/").records
    assert caplog.text.count("no space left on device") == 1
    revision = store.revision
    crash(store)
    again = SqliteStore(tmp_path)
    assert not again.list("/").records
    # What the watchers of the deletions see is the last version, though it was not written once more.
    events = await drain(again.watch("/big/", after=revision - 5))
    assert [(event.type, len(event.record.value)) for event in events] == [(EventType.DELETED, 500_000)] * 5
    await again.close()


async def test_it_recovers_by_itself(tmp_path, monkeypatch, caplog):
    store = SqliteStore(tmp_path)
    room = False
    monkeypatch.setattr(store._ballast, "is_light", lambda: room)
    fill_up(store, spare=2)
    with pytest.raises(NoSpace):
        await store.create("/big", text("x" * 100_000))
    assert store.trouble
    make_room(store)
    room = True
    assert store.trouble, "it is looked at once a second only"
    store._next_try = 0.0
    assert not store.trouble
    assert (tmp_path / "store.ballast").stat().st_size
    assert "can be written to again" in caplog.text
    await store.create("/big", text("x" * 100_000))
    await store.close()


async def test_room_within_the_file_ends_it_too(tmp_path, monkeypatch):
    store = SqliteStore(tmp_path)
    monkeypatch.setattr(store._ballast, "is_light", lambda: False)
    for number in range(5):
        await store.create(f"/big/{number}", lambda revision: b"x" * 500_000)
    fill_up(store, spare=2)
    with pytest.raises(NoSpace):
        await store.create("/more", lambda revision: b"x" * 1_000_000)
    monkeypatch.setattr("dray.store.journal.free", lambda directory: 0)
    store._next_try = 0.0
    assert store.trouble
    for number in range(5):
        await store.delete(f"/big/{number}")
    await store.compact(0)
    store._next_try = 0.0
    assert not store.trouble
    await store.create("/more", lambda revision: b"x" * 1_000_000)
    await store.close()


async def test_a_full_disk_that_becomes_read_only_is_not_called_full(tmp_path, monkeypatch):
    store = SqliteStore(tmp_path)
    fill_up(store, spare=2)
    with pytest.raises(NoSpace):
        await store.create("/big", text("x" * 100_000))

    def refuse(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("os.posix_fallocate", refuse)
    store._next_try = 0.0
    assert store.trouble.endswith("Read-only file system")
    assert "no space" not in store.trouble
    await store.close()


async def test_other_trouble_ends_with_the_first_write_that_succeeds(tmp_path, monkeypatch):
    store = SqliteStore(tmp_path)
    append = store._journal.append

    def fail(*arguments, **options):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(store._journal, "append", fail)
    with pytest.raises(NotDurable, match="disk I/O error"):
        await store.create("/a", text("a"))
    assert "disk I/O error" in store.trouble
    monkeypatch.setattr(store._journal, "append", append)
    await store.create("/a", text("a"))
    assert not store.trouble
    await store.close()
