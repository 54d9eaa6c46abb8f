"""Detect the encoding of a table or JSON file that is not in UTF-8."""

from __future__ import annotations

import codecs
from itertools import pairwise
from pathlib import Path

from snellen.formats.delimited import open_text
from snellen.formats.suffixes import TEXTS, row_suffix

MIN_CJK_SHARE = 0.9
"""Smallest share, among the non-ASCII characters of a text, of common Chinese characters and
punctuation by which it is taken for GB 18030.
"""
MAX_ACCENTED_SHARE = 0.2
"""Share of the letters of a text in a Western language that have accents."""
MIN_CYRILLIC_SHARE = 0.9
"""Share of the non-ASCII bytes of a text in Windows-1251 that are Cyrillic letters."""


def text_encoding(path: Path) -> str:
    """Return the encoding of a table or JSON file that is not in UTF-8, such as `cp1252`.

    The result is empty for UTF-8, for other kinds of files, and if the encoding cannot be
    determined. It is also empty if some lines with non-ASCII characters are in UTF-8 and others are
    not; then the reader reports the lines that are not.
    """
    suffix = row_suffix(path)
    if suffix not in (*TEXTS, ".json", ".jsonl") or not path.is_file():
        return ""
    with open_text(path) as file:
        beginning = file.read(2)
        if beginning in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        if suffix not in TEXTS:
            return ""
        content = beginning + file.read()
    if _is_utf8(content):
        return ""
    if any(not line.isascii() and _is_utf8(line) for line in content.splitlines()):
        return ""
    return _single_byte_or_chinese(content)


def _single_byte_or_chinese(content: bytes) -> str:
    """Return gb18030, cp1252 or cp1251 for a text that is not in UTF-8; empty if it is none of them."""
    if _is_chinese(content):
        return "gb18030"
    accented = sum(byte >= 0x80 for byte in content)
    letters = sum(byte >= 0x80 or chr(byte).isalpha() for byte in content)
    if accented < MAX_ACCENTED_SHARE * letters:
        return "cp1252"
    text = content.decode("cp1251", "replace").casefold()
    cyrillic = sum("а" <= letter <= "я" for letter in text)
    return "cp1251" if cyrillic > MIN_CYRILLIC_SHARE * accented else ""


def _is_chinese(content: bytes) -> bool:
    """Return whether a text is in the Chinese encoding GB 18030 (or its predecessors GBK and GB
    2312).

    Nearly all characters of a Chinese text are common ones, whose codes begin with the bytes B0 to
    D7 (level 1 of GB 2312).
    """
    try:
        text = content.decode("gb18030")
    except UnicodeDecodeError:
        return False
    foreign = [character for character in text if not character.isascii()]
    common = 0
    punctuation = 0
    for character in foreign:
        if _is_ideograph(character):
            first_byte = character.encode("gb18030")[0]
            common += 0xB0 <= first_byte <= 0xD7
        elif "\u3000" <= character <= "\u303f" or "\uff00" <= character <= "\uffef":
            punctuation += 1
    has_words = any(
        _is_ideograph(first) and _is_ideograph(second) for first, second in pairwise(text)
    )
    return has_words and common + punctuation >= MIN_CJK_SHARE * len(foreign)


def _is_ideograph(character: str) -> bool:
    """Return whether a character is a common Chinese character (CJK Unified Ideographs)."""
    return "\u4e00" <= character <= "\u9fff"


def _is_utf8(content: bytes) -> bool:
    """Return whether bytes are valid UTF-8."""
    try:
        content.decode()
        return True
    except UnicodeDecodeError:
        return False
