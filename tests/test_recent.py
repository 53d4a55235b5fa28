"""The cache of what was used last."""

from __future__ import annotations

from bridle.recent import RecentCache


def test_the_least_recently_used_go_first() -> None:
    cache = RecentCache(2, 100)
    cache.keep("a", 1, 10)
    cache.keep("b", 2, 10)
    assert cache.get("a") == 1  # now b is the older one
    cache.keep("c", 3, 10)
    assert [cache.get(key) for key in "abc"] == [1, None, 3] and len(cache) == 2 and cache.bytes == 20


def test_bytes_are_bounded_too() -> None:
    cache = RecentCache(10, 100)
    for k in range(10):
        cache.keep(k, k, 30)
    assert len(cache) == 3 and cache.bytes == 90 and cache.get(9) == 9
    cache.keep(9, "other", 40)  # the same key again
    assert cache.get(9) == "other" and cache.bytes == 100
    cache.keep("huge", 0, 1000)  # larger than all that may be kept: it stays alone
    assert len(cache) == 1 and cache.bytes == 1000
