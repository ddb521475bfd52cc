"""Instants as UTC milliseconds, and the calendar's steps: days of the month that a shorter month does not have are its
last day, and the anchor day comes back in the next month that has it."""

import datetime

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
HOUR = 3_600_000
DAY = 24 * HOUR
MONTHS = {"P1M": 1, "P2M": 2, "P3M": 3, "P6M": 6, "P1Y": 12}
SEOUL = 9 * HOUR


def moment(instant):
    return EPOCH + datetime.timedelta(milliseconds=instant)


def instant_of(text):
    """Milliseconds of `2026-12-01T00:00:00Z` or of a day."""
    if text is None:
        return None
    if len(text) == 10:
        text += "T00:00:00Z"
    since = datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) - EPOCH
    return since // datetime.timedelta(milliseconds=1)


def text_of(instant):
    whole = moment(instant).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{instant % 1000:03d}Z" if instant % 1000 else f"{whole}Z"


def day_of(instant):
    return moment(instant).strftime("%Y-%m-%d")


def seoul_day(instant):
    return day_of(instant + SEOUL)


def last_day(year, month):
    following = datetime.date(year + month // 12, month % 12 + 1, 1)
    return (following - datetime.timedelta(days=1)).day


def add_months(instant, months, anchor=None):
    """So many calendar months later, on the anchor day (the instant's own when left out)."""
    at = moment(instant)
    count = at.year * 12 + at.month - 1 + months
    year, month = count // 12, count % 12 + 1
    day = min(anchor or at.day, last_day(year, month))
    moved = at.replace(year=year, month=month, day=day) - EPOCH
    return moved // datetime.timedelta(milliseconds=1)


def step(instant, period, count, anchor=None):
    """`count` periods later."""
    if period == "P1W":
        return instant + 7 * DAY * count
    return add_months(instant, MONTHS[period] * count, anchor)
