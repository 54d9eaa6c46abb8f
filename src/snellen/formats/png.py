"""Write PNG files whose bytes depend only on the pixels.

Those of Pillow also depend on its version of zlib. Here an image with a palette is written with the
filter "up" (the difference to the row above), as one deflate block with fixed Huffman codes in
which only runs of a byte are shortened (RFC 1951). Noise, which has no runs, is stored
uncompressed.
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
    """Return an indexed image as the content of a PNG file.

    Args:
        width: Width in pixels.
        height: Height in pixels.
        pixels: `width * height` indices into the palette, one byte each, row by row.
        palette: Red, green and blue of each colour, from 0 to 255.

    Examples:
        >>> encode_png(1, 1, b"\\x00", [(255, 0, 0)])[:8]
        b'\\x89PNG\\r\\n\\x1a\\n'
    """
    row_above = bytes(width) + pixels[:-width]
    differences = _subtract(pixels, row_above)
    rows = [differences[start : start + width] for start in range(0, width * height, width)]
    filtered = b"".join(UP + row for row in rows)

    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    colours = b"".join(bytes(colour) for colour in palette)
    chunks = [
        _chunk(b"IHDR", header),
        _chunk(b"PLTE", colours),
        _chunk(b"IDAT", _deflate(filtered, width)),
        _chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _subtract(minuend: bytes, subtrahend: bytes) -> bytes:
    """Subtract two byte strings of the same length byte by byte, modulo 256."""
    # Pillow does this in C: both become images that are one pixel high.
    size = (len(minuend), 1)
    difference = ImageChops.subtract_modulo(
        Image.frombytes("L", size, minuend), Image.frombytes("L", size, subtrahend)
    )
    return difference.tobytes()


def _chunk(name: bytes, content: bytes) -> bytes:
    """Return a PNG chunk: length, name, content and checksum."""
    length = struct.pack(">I", len(content))
    checksum = struct.pack(">I", zlib.crc32(name + content))
    return length + name + content + checksum


def _deflate(content: bytes, width: int) -> bytes:
    """Compress the filtered rows of an image, each a filter byte and `width` bytes, to a zlib stream (RFC 1950)."""
    is_noise = content.count(0) * 4 < len(content)
    blocks = _stored_blocks(content) if is_noise else _compressed_block(content, width)
    checksum = struct.pack(">I", zlib.adler32(content))
    return b"\x78\x01" + blocks + checksum


def _stored_blocks(content: bytes) -> bytes:
    """Return content as uncompressed deflate blocks of at most 65,535 bytes (RFC 1951, 3.2.4)."""
    blocks: list[bytes] = []
    for start in range(0, len(content), 65535):
        part = content[start : start + 65535]
        is_last = start + 65535 >= len(content)
        inverted_length = len(part) ^ 0xFFFF
        block_header = struct.pack("<BHH", is_last, len(part), inverted_length)
        blocks.append(block_header + part)
    return b"".join(blocks)


def _compressed_block(content: bytes, width: int) -> bytes:
    """Return content as one deflate block with fixed Huffman codes, in which only runs of a byte are shortened.

    Args:
        content: Rows of an image, each a filter byte followed by `width` bytes.
        width: Width of the image.
    """
    pending_bits = 0b011  # final block, fixed codes
    pending_count = 3
    output = bytearray()
    for run in _runs(width).finditer(content):
        start, end = run.span()
        if run.lastgroup == "same_rows":
            row_count = (end - start) // (width + 1)
            code, size = _same_rows(width, row_count)
        else:
            code, size = _repeated(content[start], end - start)
        pending_bits |= code << pending_count
        pending_count += size
        if pending_count >= 256:
            byte_count = pending_count // 8
            complete_bytes = pending_bits & ((1 << byte_count * 8) - 1)
            output += complete_bytes.to_bytes(byte_count, "little")
            pending_bits >>= byte_count * 8
            pending_count -= byte_count * 8

    code, size = _SYMBOL[256]  # end of block
    pending_bits |= code << pending_count
    pending_count += size
    output += pending_bits.to_bytes((pending_count + 7) // 8, "little")
    return bytes(output)


@lru_cache(maxsize=256)
def _runs(width: int) -> re.Pattern[bytes]:
    """Return a pattern that divides filtered rows into runs.

    A run is several rows equal to the row above (a filter byte and `width` zeros), or one byte repeated. Runs of
    zeros are the most frequent, so they have an alternative of their own, which is faster.
    """
    same_row = rb"%b\x00{%d}" % (UP, width)
    return re.compile(rb"(?P<same_rows>(?:%b)+)|\x00+|(?P<byte>.)(?P=byte)*" % same_row, re.DOTALL)


@lru_cache(maxsize=1 << 12)
def _same_rows(width: int, count: int) -> tuple[int, int]:
    """Return the Huffman code of `count` rows that equal the row above, and its size in bits."""
    filter_code, filter_size = _repeated(UP[0], 1)
    zeros_code, zeros_size = _repeated(0, width)
    row_code = filter_code | zeros_code << filter_size
    row_size = filter_size + zeros_size
    # A number with a 1 at bit 0, row_size, 2 * row_size, ...: times the code of a row, it repeats this code.
    repeat = ((1 << row_size * count) - 1) // ((1 << row_size) - 1)
    return row_code * repeat, row_size * count


@lru_cache(maxsize=1 << 14)
def _repeated(value: int, count: int) -> tuple[int, int]:
    """Return the Huffman code of `count` bytes of one value, and its size in bits.

    It is the code of the byte itself, followed by codes for "repeat it n times", with n at most 258.
    """
    longest_runs, remainder = divmod(count - 1, 258)
    codes = [_LITERAL[value], *_RUN[258] * longest_runs]
    if remainder >= 3:
        codes += _RUN[remainder]
    else:
        codes += [_LITERAL[value]] * remainder  # deflate has no runs shorter than 3

    joined = 0
    joined_size = 0
    for code, size in codes:
        joined |= code << joined_size
        joined_size += size
    return joined, joined_size


def _reverse(value: int, size: int) -> int:
    """Return a number of `size` bits with its bits in reverse order."""
    bits = f"{value:0{size}b}"
    return int(bits[::-1], 2)


def _fixed(symbol: int) -> tuple[int, int]:
    """Return the fixed Huffman code of a literal or length symbol (RFC 1951, 3.2.6), and its size in bits.

    The bits are in the order in which they are written.
    """
    if symbol < 144:
        return _reverse(0x30 + symbol, 8), 8
    if symbol < 256:
        return _reverse(0x190 + symbol - 144, 9), 9
    if symbol < 280:
        return _reverse(symbol - 256, 7), 7
    return _reverse(0xC0 + symbol - 280, 8), 8


def _run(length: int) -> tuple[tuple[int, int], ...]:
    """Return the codes for "repeat the last byte `length` times": length symbol, extra bits, and the distance 1.

    Each is a pair of the code and its size in bits.
    """
    index = 0
    for position, (shortest, _) in enumerate(_LENGTHS):
        if shortest <= length:
            index = position
    shortest, extra_bits = _LENGTHS[index]
    return _fixed(257 + index), (length - shortest, extra_bits), (0, 5)


_SYMBOL = [_fixed(symbol) for symbol in range(286)]
_LITERAL = _SYMBOL[:256]
_RUN = {length: _run(length) for length in range(3, 259)}
