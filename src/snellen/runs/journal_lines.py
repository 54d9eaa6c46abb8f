"""Write and read a line of a journal: an exchange, the model that answered it, and a checksum of both.

A line is JSON. Its last field, `crc`, is the CRC-32 of the line without it. A line that was edited on purpose has none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TypeVar
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.errors import StoreError
from snellen.formats.json_files import JSON_FAULTS
from snellen.records import (
    EVALUATED,
    Decoding,
    Exchange,
    Failure,
    Request,
    RequestKind,
    Usage,
    key_of,
)

NO_AUTHORS: Mapping[str, str] = MappingProxyType({})
_encoder = msgspec.json.Encoder()

_BEFORE_CHECKSUM = b',"crc":"'
_CHECKSUM_LENGTH = 8
_AFTER_CHECKSUM = b'"}\n'
_END_LENGTH = len(_BEFORE_CHECKSUM) + _CHECKSUM_LENGTH + len(_AFTER_CHECKSUM)

# --- partial forms of an exchange, which are faster to read -----------------------------------------------------------


class EntryVariant(Struct, frozen=True, gc=False):
    """The part of a variant that shows whether a request is a baseline, which measures chance without the image."""

    baseline: str = ""


class EntryRequest(Struct, frozen=True, gc=False):
    """The sample of a request and the role of its model."""

    benchmark: str
    sample_id: str
    variant: EntryVariant
    role: str = EVALUATED


class EntryResponse(Struct, frozen=True, gc=False):
    """The cost of a response and its failure, without its text."""

    usage: Usage | None = None
    seconds: float | None = None
    error: Failure | None = None


class JournalEntry(Struct, frozen=True, gc=False):
    """An exchange without the texts of request and reply. It can be read in a third of the time."""

    protocol: str
    request: EntryRequest
    response: EntryResponse
    reused: bool = False
    from_cache: bool = False
    answered_by: str = ""


_NO_CONTINUATIONS = msgspec.Raw(_encoder.encode(()))
_DEFAULT_DECODING = msgspec.Raw(_encoder.encode(Decoding()))


class StoredRequest(Struct, frozen=True, dict=True):
    """A request whose parts stay encoded as JSON. This is enough to compute its key."""

    benchmark: str
    sample_id: str
    variant: msgspec.Raw
    messages: msgspec.Raw
    kind: RequestKind = "generate"
    continuations: msgspec.Raw = _NO_CONTINUATIONS
    decoding: msgspec.Raw = _DEFAULT_DECODING
    role: str = EVALUATED

    @cached_property
    def key(self) -> str:
        """The key of the request."""
        return key_of(self.messages, self.kind, self.continuations, self.decoding, self.role)

    @property
    def is_presentation(self) -> bool:
        """Whether its response is an answer to a sample, and neither a step nor a baseline."""
        variant = bytes(self.variant)
        return b'"step":' not in variant and b'"baseline":' not in variant


class StoredResponse(Struct, frozen=True, gc=False):
    """The failure of a response, if it failed."""

    error: Failure | None = None


class StoredExchange(Struct, frozen=True, gc=False):
    """The parts of an exchange that a resumed run needs. They can be read in three quarters of the time."""

    protocol: str
    request: StoredRequest
    response: StoredResponse
    reused: bool = False
    answered_by: str = ""


# --- lines -----------------------------------------------------------------------------------------------------------

LineT = TypeVar("LineT", Exchange, JournalEntry, StoredExchange)
_exchange_decoder = msgspec.json.Decoder(Exchange)
_stored_decoder = msgspec.json.Decoder(StoredExchange)
_entry_decoder = msgspec.json.Decoder(JournalEntry)


def write_line(exchange: Exchange, authors: Mapping[str, str]) -> bytes:
    """Encode a request with its response as a line of a journal.

    The line is JSON. Its last field is a checksum (CRC-32) of the line without this field.

    Args:
        exchange: The request and the response.
        authors: The identity of the model in each role. That of the model which answered is stored in the line.
    """
    author = authors.get(exchange.request.role, "")
    body = _encoder.encode(replace(exchange, answered_by=author))
    without_brace = body.removesuffix(b"}")
    checksum = b"%08x" % crc32(body)
    return without_brace + _BEFORE_CHECKSUM + checksum + _AFTER_CHECKSUM


def read_line(line: bytes, authors: Mapping[str, str] = NO_AUTHORS) -> Exchange:
    """Decode the exchange in a line.

    Args:
        line: The line with its line break.
        authors: The identity of the model in each role; roles that are absent are not checked.

    Raises:
        StoreError: The line is not an exchange, has changed since it was written, or was answered by another model.
            The message does not name the file.
    """
    return _decode(_checked_body(line) or line, authors, _exchange_decoder)


def read_entry(line: bytes, authors: Mapping[str, str] = NO_AUTHORS) -> JournalEntry:
    """Decode a line like `read_line`, without validating what was asked and replied."""
    return _decode(_checked_body(line) or line, authors, _entry_decoder)


def read_stored(line: bytes, authors: Mapping[str, str] = NO_AUTHORS) -> StoredExchange:
    """Decode a line like `read_line`, keeping only what a resumed run needs."""
    body = _checked_body(line)
    if body is None:
        # A line without a checksum was edited, so its JSON may be formatted in another way than Snellen formats it.
        # The key of a request is a digest of formatted JSON, so the line is formatted again.
        body = _encoder.encode(read_line(line, authors))
    return _decode(body, authors, _stored_decoder)


def _checked_body(line: bytes) -> bytes | None:
    """Return a line of a journal without its checksum, after comparing it with the checksum.

    Returns:
        The JSON of the line; None if the line has no checksum.

    Raises:
        StoreError: The checksum does not match, so the line has changed since it was written.
    """
    end = line[-_END_LENGTH:]
    if not (end.startswith(_BEFORE_CHECKSUM) and end.endswith(_AFTER_CHECKSUM)):
        return None
    body = line[:-_END_LENGTH] + b"}"
    checksum = end[len(_BEFORE_CHECKSUM) : -len(_AFTER_CHECKSUM)]
    if checksum != b"%08x" % crc32(body):
        raise StoreError("the line has changed since it was written (its CRC does not match)")
    return body


def _decode(body: bytes, authors: Mapping[str, str], decoder: msgspec.json.Decoder[LineT]) -> LineT:
    """Decode the JSON of a line.

    Args:
        body: The line without its checksum.
        authors: The identity of the model in each role. Roles that are absent are not checked.
        decoder: Decodes an exchange, or a part of it.

    Raises:
        StoreError: The line is not an exchange, or another model answered it.
    """
    try:
        content = decoder.decode(body)
    except JSON_FAULTS as error:
        raise StoreError(f"not an exchange of this version ({error})") from None
    expected_author = authors.get(content.request.role)
    if expected_author not in (None, content.answered_by):
        actual_author = content.answered_by or "a model without a name"
        raise StoreError(
            f"the reply is from {actual_author}, but this run belongs to {expected_author}"
        )
    return content


# --- digests by which responses are found ----------------------------------------------------------------------------

IDENTITY_BYTES = 16
"""Length of the digest that two requests share if they share a response."""
PRESENTATION_BYTES = 12
"""Length of the digest of a presentation or of a sample under a protocol."""


def request_identity(request: Request | StoredRequest, by_sample: Collection[str]) -> bytes:
    """Return the digest by which the response to a request is found. Requests with the same digest share a response.

    Args:
        request: The request.
        by_sample: Roles whose models look up the sample, such as one that knows the answers. For these, the digest
            includes the sample, so that two samples that send the same request do not share a response.
    """
    if request.role in by_sample:
        return sample_identity(request)
    return bytes.fromhex(request.key)


def sample_identity(request: Request | StoredRequest) -> bytes:
    """Return a digest of the content of a request and of its sample."""
    return _digest_of((request.benchmark, request.sample_id, request.key), IDENTITY_BYTES)


def presentation_identity(protocol: str, request: Request | StoredRequest) -> bytes:
    """Return a digest of the content of a request, of its sample and protocol, and of how the sample is presented."""
    parts = (protocol, request.benchmark, request.sample_id, request.variant, request.key)
    return _digest_of(parts, PRESENTATION_BYTES)


def protocol_sample_identity(protocol: str, benchmark: str, sample_id: str) -> bytes:
    """Return a digest of a sample under a protocol."""
    return _digest_of((protocol, benchmark, sample_id), PRESENTATION_BYTES)


def _digest_of(parts: tuple[object, ...], size: int) -> bytes:
    """Return a digest of `size` bytes of values that JSON can hold."""
    content = _encoder.encode(parts)
    return hashlib.blake2b(content, digest_size=size).digest()
