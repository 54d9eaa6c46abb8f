"""Texts as a tokenizer leaves them: lists of tokens, with marks at their beginning, at their end and for filling."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from snellen.formats.listed_cells import listed

_START = r"<(?:sos|bos|start|s|go)>|\[(?:bos|cls)\]|startseq"
_END = r"<(?:eos|end|/s)>|\[(?:eos|sep)\]|<\|(?:endoftext|im_end)\|>|endseq"
_FILLING = r"<pad>|\[pad\]"
_MARK = re.compile(rf"(?<!\w)(?:{_START}|{_END}|{_FILLING})(?!\w)", re.IGNORECASE)
_ENDS = re.compile(rf"(?<!\w)(?:{_END})(?!\w)", re.IGNORECASE)
FEWEST_MARKS = 2
"""Marks of a text from which it is one that a tokenizer left: one may be part of an answer."""


def with_tokens_joined(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of a row with texts in place of lists of tokens; they keep their marks.

    Examples:
        >>> with_tokens_joined({"said": ["<SOS>", "a", "dog", "<EOS>", "<PAD>"], "options": ["a", "b"]})
        {'said': '<SOS> a dog <EOS> <PAD>', 'options': ['a', 'b']}
    """
    return {name: _joined(cell) for name, cell in cells.items()}


def _joined(cell: Any) -> Any:
    if not isinstance(cell, (str, list)):
        return cell
    if isinstance(cell, str) and not (cell.lstrip().startswith("[") and has_marks(cell)):
        return cell
    values = listed(cell) or []
    are_tokens = all(isinstance(value, str) and " " not in value.strip() for value in values)
    text = " ".join(values) if are_tokens else ""
    return text if has_marks(text) else cell


def has_marks(text: str) -> bool:
    """Return whether a text has marks of a tokenizer, at its beginning and at its end."""
    return len(_MARK.findall(text)) >= FEWEST_MARKS


def without_marks(text: str) -> str:
    """Return a text up to its first mark of an end, without marks.

    Examples:
        >>> without_marks("<SOS> a dog <EOS> <EOS> <PAD>"), without_marks("startseq two cats endseq")
        ('a dog', 'two cats')
    """
    up_to_end, *_ = _ENDS.split(text, maxsplit=1)
    return " ".join(_MARK.sub(" ", up_to_end).split())
