"""One line of a journal: an exchange, who answered it, and a checksum of both.

A line is JSON. Its last field, `crc`, is the CRC-32 of the line without it; a line that was edited on purpose leaves it
out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from zlib import crc32

import msgspec
from msgspec.structs import replace

from snellen.errors import StoreError
from snellen.formats.decoding import JSON_FAULTS
from snellen.records import Exchange

NO_AUTHORS: Mapping[str, str] = MappingProxyType({})
_encoder = msgspec.json.Encoder()
_exchanges = msgspec.json.Decoder(Exchange)
_CHECKSUM = re.compile(rb',"crc":"([0-9a-f]{8})"}\n\Z')
_CHECKSUM_LENGTH = len(b',"crc":"00000000"}\n')


def write_line(exchange: Exchange, authors: Mapping[str, str]) -> bytes:
    """An exchange as a line; `authors` says who answers in each role."""
    body = _encoder.encode(replace(exchange, answered_by=authors.get(exchange.request.role, "")))
    return b'%b,"crc":"%08x"}\n' % (body[:-1], crc32(body))


def read_line(line: bytes, authors: Mapping[str, str] = NO_AUTHORS) -> Exchange:
    """The exchange in a line. Raises StoreError, without the place, for a line that is none, that has changed since it
    was written, or that somebody else answered than the one of its role in `authors`."""
    if match := _CHECKSUM.search(line, max(len(line) - _CHECKSUM_LENGTH, 0)):
        line = line[: match.start()] + b"}"
        if crc32(line) != int(match[1], 16):
            raise StoreError("the line has changed since it was written (its crc does not fit)")
    try:
        exchange = _exchanges.decode(line)
    except JSON_FAULTS as error:
        raise StoreError(f"not an exchange of this version ({error})") from None
    author = authors.get(exchange.request.role)
    if author not in (None, exchange.answered_by):
        raise StoreError(f"answered by {exchange.answered_by or 'a model without a name'}, but this run is of {author}")
    return exchange
