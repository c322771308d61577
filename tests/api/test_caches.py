"""Caches keep to their bounds, and keep what is asked for."""

from dray.api.caches import BoundedDict, Cache, remember


def test_a_cache_forgets_what_was_asked_for_longest_ago() -> None:
    cache: Cache[str, int] = Cache(most=3, most_bytes=100)
    for number, name in enumerate("abc"):
        cache.put(name, number, 10)
    assert cache.get("a") == 0
    cache.put("d", 3, 10)
    assert [cache.get(name) for name in "abcd"] == [0, None, 2, 3]


def test_a_cache_counts_bytes() -> None:
    cache: Cache[str, str] = Cache(most=100, most_bytes=100)
    for name in "abcde":
        cache.put(name, name, 30)
    assert cache.size == 90
    assert [cache.get(name) for name in "abcde"] == [None, None, "c", "d", "e"]
    cache.put("e", "again", 50)
    assert (cache.size, cache.get("e"), cache.get("c")) == (80, "again", None)
    cache.put("huge", "huge", 101)
    assert (cache.get("huge"), cache.size) == (None, 80)


def test_few_drops_those_that_came_first() -> None:
    few: BoundedDict[int, int] = BoundedDict(8)
    for number in range(100):
        few[number] = number
        assert len(few) <= 8
        assert few[number] == number


def test_long_texts_are_not_remembered() -> None:
    asked = []

    @remember(16, longest=10)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    for _ in range(2):
        assert [length("short"), length("x" * 11)] == [5, 11]
    assert asked == ["short", "x" * 11, "x" * 11]
