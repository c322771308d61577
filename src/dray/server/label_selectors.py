"""Label selectors as they stand in a query: `app=web,tier in (a, b),!canary`."""

from __future__ import annotations

import re

from dray.api import names
from dray.api.caches import remember
from dray.api.label_selectors import Labels, Matcher, absent, equal, outside, present, unequal, within
from dray.api.objects import int64
from dray.server import status
from dray.server.parameters import MAX_REQUIREMENTS

_TOKEN = re.compile(r"\s*(?:(?P<symbol>==|!=|=|!|,|\(|\)|<|>)|(?P<word>[^\s=!,()<>]+))")


def _tokens(text: str) -> list[str]:
    found, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unreadable(text, f"unexpected {text[position]!r}")
        found.append(match["symbol"] or match["word"])
        position = match.end()
    return found


def _unreadable(text: str, why: str) -> status.ApiError:
    return status.bad_request(f'unable to parse requirement of selector "{text}": {why}')


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.position = 0

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if (expected and token != expected) or not token:
            raise _unreadable(self.text, f"found {token!r}, expected {expected or 'a word'!r}")
        self.position += 1
        return token

    def parse(self) -> list[Matcher]:
        matchers = []
        while self.peek():
            matchers.append(self.requirement())
            if len(matchers) > MAX_REQUIREMENTS:
                raise status.bad_request(f"a selector may have at most {MAX_REQUIREMENTS} requirements")
            if not self.peek():
                break
            self.take(",")
            if not self.peek():
                raise _unreadable(self.text, "found '', expected: identifier after ','")
        return matchers

    def requirement(self) -> Matcher:
        if self.peek() == "!":
            self.take()
            return absent(self.key())
        key = self.key()
        operator = self.peek()
        if operator in ("", ","):
            return present(key)
        self.take()
        if operator in ("=", "=="):
            return equal(key, self.value())
        if operator == "!=":
            return unequal(key, self.value())
        if operator in ("in", "notin"):
            return self.membership(key, operator == "in")
        if operator in (">", "<"):
            return self.comparison(key, operator)
        raise _unreadable(self.text, f"found {operator!r}, expected: in, notin, =, ==, !=, >, <")

    def membership(self, key: str, inside: bool) -> Matcher:
        self.take("(")
        values = {self.value()}
        while self.peek() == ",":
            self.take()
            values.add(self.value())
        self.take(")")
        return within(key, values) if inside else outside(key, values)

    def comparison(self, key: str, operator: str) -> Matcher:
        text = self.value()
        bound = int64(text)
        if bound is None:
            raise _unreadable(self.text, f"values[0]: Invalid value: {text!r}: must be an integer")

        def compare(labels: Labels) -> bool:
            given = int64(labels.get(key, ""))
            return given is not None and (given > bound if operator == ">" else given < bound)

        return compare

    def key(self) -> str:
        key = self.take()
        if not names.is_label_key(key):
            raise _unreadable(self.text, f"key: Invalid value: {key!r}: {names.LABEL_KEY_DETAIL}")
        return key

    def value(self) -> str:
        if self.peek() in ("", ",", ")"):
            return ""
        value = self.take()
        if not names.is_label_value(value):
            raise _unreadable(self.text, f"values[0]: Invalid value: {value!r}: {names.LABEL_VALUE_DETAIL}")
        return value


@remember(512, longest=4096)
def parse(text: str) -> tuple[Matcher, ...]:
    return tuple(_Parser(text).parse())
