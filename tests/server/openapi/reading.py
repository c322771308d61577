"""Reads protobuf messages without knowing them: fields by their number."""

from dray.api.protobuf.wire import read_field


def fields(data):
    found, at = {}, 0
    while at < len(data):
        number, _, value, at = read_field(data, at)
        found.setdefault(number, []).append(value)
    return found


def named(data, number):
    """What a message that stands for a map has under each name."""
    pairs = [fields(each) for each in fields(data)[number]]
    return {pair[1][0].decode(): pair[2][0] for pair in pairs}
