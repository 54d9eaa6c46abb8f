"""PNG files whose bytes depend on the pixels alone.

Pillow's own depend on the zlib it was built with. This one writes an indexed image with the "up" filter and one
deflate block of fixed Huffman codes whose only matches are runs (RFC 1951); noise, which has none, as it is.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Sequence
from functools import lru_cache

from PIL import Image, ImageChops

UP = b"\x02"
"""The filter of each row: differences from the row above."""
_LENGTHS = (
    (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0), (10, 0), (11, 1), (13, 1), (15, 1), (17, 1), (19, 2),
    (23, 2), (27, 2), (31, 2), (35, 3), (43, 3), (51, 3), (59, 3), (67, 4), (83, 4), (99, 4), (115, 4), (131, 5),
    (163, 5), (195, 5), (227, 5), (258, 0),
)  # fmt: skip
"""RFC 1951, 3.2.5: shortest run and number of extra bits of the length symbols 257, 258, ..."""


def encode_png(
    width: int, height: int, pixels: bytes, palette: Sequence[tuple[int, int, int]]
) -> bytes:
    """PNG file of an indexed image: `pixels` holds width x height palette indices, row by row.

    Examples:
        >>> encode_png(1, 1, b"\\x00", [(255, 0, 0)])[:8]
        b'\\x89PNG\\r\\n\\x1a\\n'
    """
    differences = _minus(pixels, bytes(width) + pixels[:-width])
    filtered = b"".join(UP + differences[y * width : (y + 1) * width] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    colours = b"".join(bytes(colour) for colour in palette)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(name, content)
        for name, content in (
            (b"IHDR", header),
            (b"PLTE", colours),
            (b"IDAT", _deflate(filtered, width)),
            (b"IEND", b""),
        )
    )


def _minus(minuend: bytes, subtrahend: bytes) -> bytes:
    """Each byte less that of the other, modulo 256."""
    first, second = (
        Image.frombytes("L", (len(values), 1), values) for values in (minuend, subtrahend)
    )
    return ImageChops.subtract_modulo(first, second).tobytes()


def _chunk(name: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + name
        + content
        + struct.pack(">I", zlib.crc32(name + content))
    )


def _deflate(content: bytes, width: int) -> bytes:
    packed = _stored(content) if content.count(0) * 4 < len(content) else _in_runs(content, width)
    return b"\x78\x01" + packed + struct.pack(">I", zlib.adler32(content))


def _stored(content: bytes) -> bytes:
    """Blocks of content as it is (RFC 1951, 3.2.4)."""
    parts = [content[start : start + 65535] for start in range(0, len(content), 65535)]
    return b"".join(
        struct.pack("<BHH", number == len(parts), len(part), len(part) ^ 0xFFFF) + part
        for number, part in enumerate(parts, 1)
    )


def _in_runs(content: bytes, width: int) -> bytes:
    """One block of fixed codes, of rows of a filter byte and `width` others."""
    bits, bits_written = 0b011, 3  # final block, fixed codes
    out = bytearray()
    for run in _runs(width).finditer(content):
        start, end = run.span()
        if run.lastgroup == "same_rows":
            code, size = _same_rows(width, (end - start) // (width + 1))
        else:
            code, size = _repeated(content[start], end - start)
        bits |= code << bits_written
        bits_written += size
        if bits_written >= 256:
            whole = bits_written // 8
            out += (bits & ((1 << whole * 8) - 1)).to_bytes(whole, "little")
            bits >>= whole * 8
            bits_written -= whole * 8
    code, size = _SYMBOL[256]
    out += (bits | code << bits_written).to_bytes((bits_written + size + 7) // 8, "little")
    return bytes(out)


@lru_cache(maxsize=256)
def _runs(width: int) -> re.Pattern[bytes]:
    """Runs of a byte; at once, rows that are as the one above. Zeros, which are most, have a faster pattern of their
    own."""
    row = rb"%b\x00{%d}" % (UP, width)
    return re.compile(rb"(?P<same_rows>(?:%b)+)|\x00+|(?P<byte>.)(?P=byte)*" % row, re.DOTALL)


@lru_cache(maxsize=1 << 12)
def _same_rows(width: int, count: int) -> tuple[int, int]:
    """(code, size) of so many rows that are as the one above: the code of one, again and again."""
    (filter_code, filter_size), (zeros, zeros_size) = _repeated(UP[0], 1), _repeated(0, width)
    size = filter_size + zeros_size
    each = ((1 << size * count) - 1) // ((1 << size) - 1)
    return (filter_code | zeros << filter_size) * each, size * count


@lru_cache(maxsize=1 << 14)
def _repeated(value: int, count: int) -> tuple[int, int]:
    """(code, size) of `count` bytes of one value: the byte, then as many repetitions of it as fit."""
    bits = size_so_far = 0
    runs, remainder = divmod(count - 1, 258)
    codes = [
        _LITERAL[value],
        *_RUN[258] * runs,
        *(_RUN[remainder] if remainder >= 3 else [_LITERAL[value]] * remainder),
    ]
    for code, size in codes:
        bits |= code << size_so_far
        size_so_far += size
    return bits, size_so_far


def _reverse(value: int, size: int) -> int:
    return int(f"{value:0{size}b}"[::-1], 2)


def _fixed(symbol: int) -> tuple[int, int]:
    """(code, size) of a literal/length symbol in the fixed table, bits in the order they are sent."""
    if symbol < 144:
        return _reverse(0x30 + symbol, 8), 8
    if symbol < 256:
        return _reverse(0x190 + symbol - 144, 9), 9
    if symbol < 280:
        return _reverse(symbol - 256, 7), 7
    return _reverse(0xC0 + symbol - 280, 8), 8


def _run(length: int) -> tuple[tuple[int, int], ...]:
    """Codes for "repeat the last byte `length` times": length symbol, extra bits, distance 1."""
    place = max(i for i, (shortest, _) in enumerate(_LENGTHS) if shortest <= length)
    shortest, extra = _LENGTHS[place]
    return _fixed(257 + place), (length - shortest, extra), (0, 5)


_SYMBOL = [_fixed(symbol) for symbol in range(286)]
_LITERAL = _SYMBOL[:256]
_RUN = {length: _run(length) for length in range(3, 259)}
