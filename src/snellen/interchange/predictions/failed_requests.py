"""Texts that harnesses write in place of a reply that never came.

Known from VLMEvalKit ("Failed to obtain answer via API."), FastChat ("**NETWORK ERROR DUE TO HIGH TRAFFIC ...**",
"$ERROR$"), OpenAI's Python client ("Connection error.", "Request timed out.", "Error code: 429 - ..."), PyTorch ("CUDA
out of memory. ..."), and from names of Python's exceptions ("TimeoutError: ...").
"""

from __future__ import annotations

import re
from collections.abc import Collection

from snellen.interchange.predictions.texts import folded

LONGEST = 2000
"""Characters: a longer text is a reply that speaks of a failure."""
_WHO = (
    r"(?:api|openai|network|connection|timeout|internal|server|internal server|request|inference|generation|unexpected)"
)
_BEGINNINGS = (
    r"failed to (?:obtain|get|generate|fetch|receive|retrieve|produce)\b[^.\n]{0,40}\b"
    r"(?:answers?|responses?|reply|replies|outputs?|predictions?|completions?)\b",
    r"[\[<({*$]+\s*(?:\w+[ _-])?error\b",
    rf"{_WHO}[ _-]?(?:error|failed|failure|timeout|timed out)\b\s*(?:[.:!]|$|due to|after|with|while)",
    rf"(?:an? )?(?:{_WHO} )?error (?:has )?occurred\b",
    r"error code: ?\d{3}\b",
    r"(?:http|status)[ _]?(?:code|error)?:? ?[45]\d\d\b",
    r"[45]\d\d (?:bad|gateway|internal|service|server|too many|request|unauthori[sz]ed|forbidden|not found)\b",
    rf"error: [^\n]{{0,80}}(?:{_WHO}|https?|timed out)\b",
    r"error: https?\w*",
    r"cuda (?:error|out of memory)\b",
    r"traceback \(most recent call last\)",
    r"(?:rate limit (?:exceeded|reached)|too many requests|service (?:temporarily )?unavailable)\b",
    r"max(?:imum)? retries\b",
    r"(?-i:(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Timeout)\b[:(])",
)
_FAILURE = re.compile("|".join(_BEGINNINGS), re.IGNORECASE)
_EMPTY_CELL = re.compile(r"nan|none|null|<na>|n/?a", re.IGNORECASE)


def is_failure(reply: str, expected_texts: Collection[str] = ()) -> bool:
    """Whether a text stands for a request that failed; never one of the `expected_texts`: options and references."""
    text = reply.strip()
    if len(text) > LONGEST or not _FAILURE.match(text):
        return False
    return folded(text) not in map(folded, expected_texts)


def is_empty_cell(cell: str, expected_texts: Collection[str] = ()) -> bool:
    """Whether a cell of a table says that nothing is there, as spreadsheets and pandas write it."""
    text = cell.strip()
    return not text or bool(_EMPTY_CELL.fullmatch(text) and folded(text) not in map(folded, expected_texts))
