from __future__ import annotations

import codecs

import pytest

from dray.yaml.text import ManifestError, decode


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_decodes_what_editors_write(encoding: str) -> None:
    assert decode("name: größe\n".encode(encoding)) == "name: größe\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: b\nc: \xff", "2:4: byte 0xff at offset 8 is not UTF-8"),
        (codecs.BOM_UTF8 + b"a: \xff", "1:4: byte 0xff at offset 6 is not UTF-8"),
        (b"\x7fELF\x02\x01", "1:1: control character U+007F at byte offset 0"),
        (b"a: b\n\x00", "2:1: control character U+0000 at byte offset 5"),
        (codecs.BOM_UTF16_LE + b"a\x00b", "is not UTF-16"),
    ],
)
def test_names_the_byte_that_is_not_text(data: bytes, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        decode(data)
    assert message in str(caught.value)
    assert "give YAML or JSON text" in str(caught.value)
