"""Read texts as a tokenizer leaves them: lists of tokens, with marks such as `<SOS>`, `<EOS>` and `<PAD>`."""

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
"""The fewest marks that show that a text comes from a tokenizer. A single one may be part of an answer."""


def with_tokens_joined(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of a row with each list of tokens joined to a text. Marks such as `<EOS>` stay in it.

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
    """Return whether a text has at least two marks of a tokenizer, such as `<SOS>` and `<EOS>`."""
    return len(_MARK.findall(text)) >= FEWEST_MARKS


def without_marks(text: str) -> str:
    """Return a text up to its first mark for an end (`<EOS>`), and without other marks.

    Examples:
        >>> without_marks("<SOS> a dog <EOS> <EOS> <PAD>"), without_marks("startseq two cats endseq")
        ('a dog', 'two cats')
    """
    up_to_end, *_ = _ENDS.split(text, maxsplit=1)
    return " ".join(_MARK.sub(" ", up_to_end).split())
