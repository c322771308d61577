"""The part of a shared device that will stay unused, learned from the sizes of shares."""

import pytest

from dray.scheduling.plugins.preferences.share_sizes import ShareSizes


def sizes_of(**numbers):
    sizes = ShareSizes()
    sizes.replace({}, {int(name[1:]): number for name, number in numbers.items()})
    return sizes


def test_without_shares_all_that_is_free_stays_unused():
    assert [ShareSizes().unused(free) for free in (0, 190, 1000)] == [0, 190, 1000]


@pytest.mark.parametrize(("free", "unused"), [(0, 0), (190, 190), (460, 460), (470, 0), (530, 60), (940, 0)])
def test_what_is_smaller_than_any_share_stays_unused(free, unused):
    # The probability that no further share comes adds up to 4 % of the free part for two shares.
    assert sizes_of(s470=100).unused(free) == pytest.approx(unused, abs=0.04 * free if free >= 470 else 0)


def test_sizes_count_by_their_number():
    often, rarely = sizes_of(s810=100, s160=100), sizes_of(s810=100, s160=1)
    assert often.unused(190) == pytest.approx((190 * 4 + 30 * 100) / 104)
    assert rarely.unused(190) == pytest.approx((190 * 2.02 + 30 * 1) / 3.02)


def test_shares_that_take_a_whole_device_do_not_count():
    assert sizes_of(s500=10, s1000=1000).unused(500) == pytest.approx(sizes_of(s500=10).unused(500))


def test_few_shares_say_nothing_about_sizes():
    assert sizes_of(s500=31).unused(500) == 500
    assert sizes_of(s500=32).unused(500) == pytest.approx(500 * 0.02 / 1.02)


def test_sizes_are_learned_anew_once_enough_shares_came_or_went():
    sizes = sizes_of(s500=80)
    assert (sizes.revision, sizes.unused(250)) == (1, 250)
    sizes.replace({}, {250: 160})
    assert (sizes.revision, sizes.unused(250)) == (1, 250)
    sizes.replace({250: 160}, {250: 0})
    assert (sizes.revision, sizes.unused(250)) == (2, 250)
    sizes.replace({500: 40}, {250: 320})
    assert sizes.revision == 3
    assert sizes.unused(250) == pytest.approx(250 * 7.2 / 327.2)
