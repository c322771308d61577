"""Cron schedules: when they are due, and what is refused."""

import re
from datetime import UTC, datetime

import pytest

from dray.api import cron

START = datetime(2026, 10, 31, 23, 59, 30, tzinfo=UTC)


def due(schedule, number=3, *, zone="UTC", start=START):
    found, moment = [], start
    parsed = cron.parse(schedule, cron.find_zone(zone))
    for _ in range(number):
        moment = parsed.next(moment)
        found.append(f"{moment:%m-%d %H:%M:%S}" if moment is not None else None)
        if moment is None:
            break
    return found


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("*/5 * * * *", ["11-01 00:00:00", "11-01 00:05:00", "11-01 00:10:00"]),
        ("7/20 3 * * ?", ["11-01 03:07:00", "11-01 03:27:00", "11-01 03:47:00"]),
        ("0 12 * * mon-WED,5", ["11-02 12:00:00", "11-03 12:00:00", "11-04 12:00:00"]),
        ("0 0 1 jan,Feb *", ["01-01 00:00:00", "02-01 00:00:00", "01-01 00:00:00"]),
        # Either day will do where both are said; a star that is stepped says something.
        ("0 0 2 * 3", ["11-02 00:00:00", "11-04 00:00:00", "11-11 00:00:00"]),
        ("0 0 */15 * 3", ["11-01 00:00:00", "11-04 00:00:00", "11-11 00:00:00"]),
        ("0 0 * * 3", ["11-04 00:00:00", "11-11 00:00:00", "11-18 00:00:00"]),
        ("0 0 31 * *", ["12-31 00:00:00", "01-31 00:00:00", "03-31 00:00:00"]),
        ("0 0 30 2 *", [None]),
        ("@hourly", ["11-01 00:00:00", "11-01 01:00:00", "11-01 02:00:00"]),
        ("@weekly", ["11-01 00:00:00", "11-08 00:00:00", "11-15 00:00:00"]),
        ("@annually", ["01-01 00:00:00", "01-01 00:00:00", "01-01 00:00:00"]),
        ("@every 1m30s", ["11-01 00:01:00", "11-01 00:02:30", "11-01 00:04:00"]),
        ("CRON_TZ=Asia/Tokyo 0 9 * * *", ["11-01 00:00:00", "11-02 00:00:00", "11-03 00:00:00"]),
    ],
)
def test_due(schedule, expected):
    assert due(schedule) == expected


def test_changes_of_the_clock():
    new_york = "America/New_York"
    # 01:30 comes twice on the first of November, 02:30 not at all on the fourteenth of March.
    assert due("30 1 * * *", zone=new_york) == ["11-01 05:30:00", "11-01 06:30:00", "11-02 06:30:00"]
    spring = datetime(2027, 3, 13, tzinfo=UTC)
    assert due("30 2 * * *", zone=new_york, start=spring) == ["03-13 07:30:00", "03-15 06:30:00", "03-16 06:30:00"]
    assert due("0 0 * * *", 2, zone="America/Santiago", start=datetime(2026, 9, 5, tzinfo=UTC)) == [
        "09-05 04:00:00",
        "09-07 03:00:00",
    ]


def test_the_end_of_the_calendar_is_never():
    assert due("@hourly", start=datetime(9999, 12, 31, tzinfo=UTC)) == [None]
    assert due("@every 1h", start=datetime(9999, 12, 31, tzinfo=UTC)) == [None]


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@often", "unrecognized descriptor: @often"),
        ("@every soon", 'failed to parse duration @every soon: time: invalid duration "soon"'),
        ("TZ=Nowhere * * * * *", "provided bad location Nowhere: unknown time zone Nowhere"),
        ("9" * 5000, "longer than 4096 characters"),
    ],
)
def test_refused(schedule, problem):
    with pytest.raises(ValueError, match=re.escape(problem)) as raised:
        cron.parse(schedule)
    assert str(raised.value) == problem


@pytest.mark.parametrize("name", ["Nowhere", "../UTC", "/etc/passwd", "", "Europe/", "a" * 5000])
def test_unknown_zones(name):
    with pytest.raises(ValueError, match="unknown time zone"):
        cron.find_zone(name)
