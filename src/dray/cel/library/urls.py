"""URLs, read the way Go's `url.ParseRequestURI` reads them: absolute URIs and absolute paths only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from dray.cel import types as t
from dray.cel.declarations import Library
from dray.cel.errors import EvaluationError, no_such_overload
from dray.cel.values import Value, register_type

LIBRARY: Final = Library("urls")
LIBRARY.constants["kubernetes.URL"] = t.URL

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
# All but these: a set of nearly all characters takes long to compile.
_HOST = re.compile(r"[^\x00-\x20#/?@\\^`{|}\x7f]*")
_PORT = re.compile(r"(?::\d*)?", re.ASCII)
_USERINFO = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_PATH_SAFE: Final = "/$&+,:;=@!'()*~"


@dataclass(frozen=True, slots=True)
class Url:
    scheme: str
    host: str
    path: str
    query: str

    @property
    def hostname(self) -> str:
        if self.host.startswith("["):
            return self.host[1 : self.host.find("]")]
        return self.host.partition(":")[0]

    @property
    def port(self) -> str:
        rest = self.host[self.host.find("]") + 1 :] if self.host.startswith("[") else self.host
        return rest.partition(":")[2]


register_type(Url, "kubernetes.URL")


def parse_url(text: str) -> Url | None:
    """The URL, or None when the text is not an absolute one."""
    if not text or any(ord(character) < 0x20 or ord(character) == 0x7F for character in text):
        return None
    match = _SCHEME.match(text)
    scheme, rest = (match.group(1).lower(), text[match.end() :]) if match else ("", text)
    if match is None and text.startswith(":"):
        return None
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        return Url(scheme, "", "", query) if scheme else None
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        parsed = _authority(authority)
        if parsed is None:
            return None
        host = parsed
    if _BAD_ESCAPE.search(rest):
        return None
    return Url(scheme, host, rest, query)


def _authority(authority: str) -> str | None:
    userinfo, at, host = authority.rpartition("@")
    if at and (_USERINFO.fullmatch(userinfo) is None or _BAD_ESCAPE.search(userinfo)):
        return None
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0 or _PORT.fullmatch(host[end + 1 :]) is None:
            return None
    elif ":" in host and _PORT.fullmatch(host[host.rfind(":") :]) is None:
        return None
    if _HOST.fullmatch(host) is None or (not host.startswith("[") and _BAD_ESCAPE.search(host)):
        return None
    if "%" in host and not host.startswith("["):
        decoded = unquote_to_bytes(host)
        if any(byte < 0x80 for byte in unquote_to_bytes("".join(re.findall(r"(?:%..)", host)))):
            return None
        return decoded.decode(errors="replace")
    return host


def _url(text: Value) -> Url:
    if type(text) is not str:
        raise no_such_overload("url")
    parsed = parse_url(text)
    if parsed is None:
        raise EvaluationError(f"URL parse error during conversion from string: {text[:128]!r}")
    return parsed


def _is_url(text: Value) -> bool:
    if type(text) is not str:
        raise no_such_overload("isURL")
    return parse_url(text) is not None


def _parse(value: Value, function: str) -> Url:
    if not isinstance(value, Url):
        raise no_such_overload(function)
    return value


def escaped_path(path: str) -> str:
    if _valid_encoded(path):
        return path
    return quote(unquote_to_bytes(path), safe=_PATH_SAFE)


def _valid_encoded(path: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/\[\]%]*", path) is not None


def _query(value: Value) -> dict[Value, Value]:
    found: dict[Value, Value] = {}
    for pair in _parse(value, "getQuery").query.split("&"):
        if not pair or ";" in pair:
            continue
        name, _, text = pair.partition("=")
        if _BAD_ESCAPE.search(name) or _BAD_ESCAPE.search(text):
            continue
        found.setdefault(_unescape(name), []).append(_unescape(text))
    return found


def _unescape(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ")).decode(errors="replace")


_f = LIBRARY.function
_f("url", _url, "string_to_url: (string) -> URL")
_f("isURL", _is_url, "is_url_string: (string) -> bool")
_f("getScheme", lambda v: _parse(v, "getScheme").scheme, "url_get_scheme: URL.() -> string")
_f("getHost", lambda v: _parse(v, "getHost").host, "url_get_host: URL.() -> string")
_f("getHostname", lambda v: _parse(v, "getHostname").hostname, "url_get_hostname: URL.() -> string")
_f("getPort", lambda v: _parse(v, "getPort").port, "url_get_port: URL.() -> string")
_f(
    "getEscapedPath",
    lambda v: escaped_path(_parse(v, "getEscapedPath").path),
    "url_get_escaped_path: URL.() -> string",
)
_f("getQuery", _query, "url_get_query: URL.() -> map<string,list<string>>")
